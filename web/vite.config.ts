/** Builds the page into the Python package; `npm run dev` serves it with a running `corral serve` behind. */
import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vite";

export default defineConfig({
  plugins: [svelte()],
  build: {
    outDir: "../src/corral/web/dist",
    emptyOutDir: true,
    target: "es2022",
    assetsInlineLimit: 0, // the CSP allows no data: addresses
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 700,
  },
});
