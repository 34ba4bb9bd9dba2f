// What the server says. Figures that JSON has no number for come as text: "inf", "-inf", "nan".
export type Figure = number | string | null;

export interface Run {
  id: string;
  name: string;
  algorithm: string;
  mode: string;
  data: string;
  state: string;
  rounds: number;
  rounds_planned: number;
  epsilon: Figure;
  certified_epsilon: Figure;  // none before the end
  claimed_epsilon: Figure;
  budget_epsilon: Figure;
  delta: Figure;
  bytes_up: number;
  bytes_down: number;
  metrics: Record<string, Figure>;
  started: string;
  tags: string[];
  seed: number;
  problem: string | null;
}

export interface Detail {
  run: Run;
  columns: string[];
  config: string;
  certificate: string;
}

export interface Line {
  x: number[];
  y: (number | null)[];
  infinite?: number;  // points that cannot be drawn
}

export interface Trace {
  rows: number;
  lines: Record<string, Line>;
}

export interface Answer {
  epsilon: Figure;
  epsilon_lower: Figure;
  noise_multiplier: Figure;
  method: string;
  command: string;
}

export class Refused extends Error {
  constructor(message: string, readonly status: number) {
    super(message);
  }
}

export async function ask<T>(path: string, parameters: Record<string, string>, signal?: AbortSignal): Promise<T> {
  const response = await fetch(`${path}?${new URLSearchParams(parameters)}`, signal ? {signal} : {});
  const body = (await response.json()) as T & {error?: {message: string}};
  if (!response.ok) throw new Refused(body.error?.message ?? `the server answered ${response.status}`, response.status);
  return body;
}

// What the run may cost: as certified, before that as asked for.
export function whole(r: Run): number {
  const certified = value(r.certified_epsilon);
  return Number.isNaN(certified) ? value(r.budget_epsilon) : certified;
}

export function value(f: Figure | undefined): number {
  if (typeof f === 'number') return f;
  return f === 'inf' ? Infinity : f === '-inf' ? -Infinity : NaN;
}

// Five digits; figures of privacy are rounded up, never down.
export function shown(v: number, up = false): string {
  if (v === Infinity) return '∞';
  if (!Number.isFinite(v)) return '–';
  if (v === 0) return '0';
  const place = 10 ** (Math.floor(Math.log10(Math.abs(v))) - 4);
  let text = Number(v.toPrecision(5));
  if (up && text < v) text = Number((text + place).toPrecision(5));
  const size = Math.abs(text);
  return size >= 1e6 || size < 1e-4 ? text.toExponential() : String(text);
}

export function bytes(n: number): string {
  const units = ['B', 'kB', 'MB', 'GB', 'TB'];
  let k = 0;
  for (; n >= 1000 && k + 1 < units.length; n /= 1000) ++k;
  return `${k === 0 ? n : n.toPrecision(3)} ${units[k]}`;
}
