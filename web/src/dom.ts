// Elements. Text goes in as text, so that no name of a run is ever markup.
export function by<T extends HTMLElement = HTMLElement>(id: string): T {
  const found = document.getElementById(id);
  if (!found) throw new Error(`no element ${id}`);
  return found as T;
}

type Child = Node | string;

export function make<K extends keyof HTMLElementTagNameMap>(
    tag: K, attributes: Record<string, string> = {}, ...children: Child[]): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, text] of Object.entries(attributes)) element.setAttribute(name, text);
  element.append(...children);
  return element;
}
