/** Svelte without preprocessors: TypeScript's types are erased by the compiler itself. */
export default { compilerOptions: { runes: true } };
