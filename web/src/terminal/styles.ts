/** Lets xterm.js style itself under a CSP without inline styles: by style sheets and properties that script sets. */

/**
 * xterm.js 6.0 makes `<style>` elements and sets their text; `style-src 'self'` blocks those and reports each one.
 * Sheets made by script are allowed. Its own option for another document does not reach all of them
 * (CoreBrowserTerminal.ts passes window.document on, whatever the option says), so the page's document is told.
 */
export function adoptStyleElements(document: Document): void {
  const create = document.createElement.bind(document) as (
    tag: string,
    options?: ElementCreationOptions,
  ) => HTMLElement;
  const adopted = (tag: string, options?: ElementCreationOptions): HTMLElement =>
    tag.toLowerCase() === "style" ? makeAdopted(document, create("span")) : create(tag, options);
  document.createElement = adopted as typeof document.createElement;
}

/** xterm.js 6.0 writes the colours of a cell as a `style` attribute, which the same CSP blocks; as properties they are allowed. */
export function setStylesAsProperties(prototype: Element): void {
  const set = prototype.setAttribute;
  prototype.setAttribute = function (this: Element, name: string, value: string): void {
    if (name === "style" && this instanceof HTMLElement) this.style.cssText = value;
    else set.call(this, name, value);
  };
}

function makeAdopted(document: Document, element: HTMLElement): HTMLElement {
  const sheet = new CSSStyleSheet();
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
  element.hidden = true;
  Object.defineProperty(element, "textContent", { set: (text: string) => sheet.replaceSync(text), get: () => "" });
  element.remove = () => {
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((one) => one !== sheet);
    Element.prototype.remove.call(element);
  };
  return element;
}
