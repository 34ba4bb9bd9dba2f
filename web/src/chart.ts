// One chart of several lines, redrawn in place.
import uPlot from 'uplot';
import type {Line} from './api';
import {shown} from './api';

export interface Curve {
  label: string;
  colour: number;  // of the palette
  line: Line;
  dashed?: boolean;
}

function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

export class Chart {
  private plot: uPlot | undefined;
  private curves: Curve[] = [];
  private kind = '';
  private axes = {x: '', y: '', logX: false, logY: false};

  constructor(private readonly host: HTMLElement, private readonly height: number) {
    new ResizeObserver(() => this.plot?.setSize({width: this.width(), height: this.height})).observe(host);
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => {
      this.kind = '';
      this.draw();
    });
  }

  show(curves: Curve[], axes: {x: string; y: string; logX: boolean; logY: boolean}) {
    this.curves = curves;
    this.axes = axes;
    this.draw();
  }

  private width() {
    return Math.max(200, Math.floor(this.host.clientWidth));
  }

  private draw() {
    const {x, y, logX, logY} = this.axes;
    // A log axis has no place for what is not above zero.
    const tables = this.curves.map(({line}) => {
      const xs: number[] = [], ys: (number | null)[] = [];
      line.x.forEach((at, k) => {
        const v = line.y[k] ?? null;
        if (logX && !(at > 0)) return;
        xs.push(at);
        ys.push(logY && v !== null && !(v > 0) ? null : v);
      });
      return [xs, ys] as uPlot.AlignedData;
    });
    const data = tables.length > 0 ? uPlot.join(tables) : ([[]] as unknown as uPlot.AlignedData);
    const points = this.curves.reduce((n, c) => n + c.line.x.length, 0);
    this.host.dataset['points'] = String(points);
    this.host.dataset['curves'] = String(this.curves.length);
    this.host.setAttribute('aria-label', this.inWords());
    const kind = JSON.stringify([this.axes, this.curves.map(c => [c.label, c.colour, c.dashed])]);
    if (this.plot && kind === this.kind) {
      this.plot.setData(data);
      return;
    }
    this.kind = kind;
    this.plot?.destroy();
    this.host.replaceChildren();
    const axis = (label: string): uPlot.Axis => ({
      label, stroke: colour('--text'), grid: {stroke: colour('--grid'), width: 1}, ticks: {stroke: colour('--line'), width: 1},
      values: (_: uPlot, at: number[]) => at.map(v => (v === null ? '' : shown(v))),
    });
    this.plot = new uPlot({
      width: this.width(), height: this.height,
      scales: {x: {time: false, distr: logX ? 3 : 1}, y: {distr: logY ? 3 : 1}},
      axes: [axis(x), {...axis(y), size: 70}],
      legend: {live: true},
      series: [
        {label: x, value: (_, v) => (v === null ? '–' : shown(v, x.startsWith('ε')))},
        ...this.curves.map(c => ({
          label: c.label, stroke: colour(`--c${c.colour}`), width: 2, spanGaps: true,
          ...(c.dashed ? {dash: [6, 4]} : {}), points: {show: c.line.x.length < 2},
          value: (_: uPlot, v: number | null) => (v === null ? '–' : shown(v, y.startsWith('ε'))),
        })),
      ],
    }, data, this.host);
  }

  // For those who do not see it.
  private inWords(): string {
    const {x, y} = this.axes;
    if (this.curves.length === 0) return `Chart of ${y} over ${x}: nothing to draw.`;
    const each = this.curves.map(c => {
      const ys = c.line.y.filter((v): v is number => v !== null);
      const first = ys[0], last = ys[ys.length - 1];
      return first === undefined || last === undefined ? `${c.label}: no figures` : `${c.label}: from ${shown(first, y.startsWith('ε'))} to ${shown(last, y.startsWith('ε'))}`;
    });
    return `Chart of ${y} over ${x}. ${each.join('; ')}.`;
  }
}
