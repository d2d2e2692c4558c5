/** A value as those see it who may read it and not write it: changes go through its methods. */
export type Reading<T> = { readonly [Field in keyof T]: Kept<T[Field]> };

type Kept<T> =
  T extends Map<infer Key, infer Value> ? ReadonlyMap<Key, Value> : T extends (infer Item)[] ? readonly Item[] : T;
