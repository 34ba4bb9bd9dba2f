// The list of runs, and the curves and certificates of those that are ticked.
import type {Detail, Run, Trace} from './api';
import {Refused, ask, bytes, shown, value, whole} from './api';
import {Chart} from './chart';
import {by, make} from './dom';

const kMostCurves = 8;
const kPoints = '2000';
const kPage = 250;

interface Column {
  title: string;
  number?: boolean;
  key: (r: Run) => string | number;
  cell: (r: Run) => Node | string;
}

const kGood = ['accuracy', 'error', 'optimality', 'loss'];
function headline(r: Run): [string, number] | undefined {
  for (const name of kGood) if (name in r.metrics) return [name, value(r.metrics[name])];
  return undefined;
}

function gauge(r: Run): Node {
  const spent = value(r.epsilon), most = whole(r);
  const text = `${shown(spent, true)} of ${shown(most, true)}`;
  if (!Number.isFinite(most) || !(most > 0)) return make('span', {class: 'bad'}, text);
  const meter = make('meter', {min: '0', max: String(most), value: String(Number.isNaN(spent) ? 0 : Math.min(spent, most)), 'aria-label': `ε spent: ${text}`});
  return make('span', {class: 'gauge'}, meter, text);
}

const kColumns: Column[] = [
  {title: 'run', key: r => r.name, cell: r => {
    const cell = make('span', {}, r.name);
    for (const tag of r.tags) cell.append(make('span', {class: 'tag'}, tag));
    return cell;
  }},
  {title: 'state', key: r => r.state, cell: r => make('span', {class: `state-${r.state}`}, r.state)},
  {title: 'algorithm', key: r => r.algorithm, cell: r => r.algorithm},
  {title: 'mode', key: r => r.mode, cell: r => r.mode},
  {title: 'data', key: r => r.data, cell: r => r.data},
  {title: 'rounds', number: true, key: r => r.rounds, cell: r => (r.rounds === r.rounds_planned ? String(r.rounds) : `${r.rounds} of ${r.rounds_planned}`)},
  {title: 'ε', key: whole, cell: gauge},
  {title: 'result', number: true, key: r => headline(r)?.[1] ?? NaN, cell: r => {
    const h = headline(r);
    return h ? `${h[0]} ${shown(h[1])}` : '';
  }},
  {title: 'sent', number: true, key: r => r.bytes_up + r.bytes_down, cell: r => bytes(r.bytes_up + r.bytes_down)},
  {title: 'started', key: r => r.started, cell: r => r.started.replace('T', ' ').replace('Z', '')},
];

export class Runs {
  private runs = new Map<string, Run>();
  private chosen: string[] = [];
  private details = new Map<string, Detail>();
  private sort = {column: kColumns.length - 1, down: true};
  private limit = kPage;
  private drawing = false;
  private again = false;
  private readonly chart = new Chart(by('chart'), 340);
  private readonly epsilon = new Chart(by('chart-epsilon'), 200);
  private readonly sigma = new Chart(by('chart-sigma'), 200);

  constructor() {
    const head = by('list').querySelector('thead tr') as HTMLTableRowElement;
    head.append(make('th', {scope: 'col'}, 'compare'));
    kColumns.forEach((column, k) => {
      const button = make('button', {type: 'button'}, column.title);
      button.addEventListener('click', () => {
        this.sort = {column: k, down: this.sort.column === k ? !this.sort.down : true};
        this.list();
      });
      head.append(make('th', {scope: 'col', ...(column.number ? {class: 'number'} : {})}, button));
    });
    for (const id of ['find', 'state'])
      by(id).addEventListener('input', () => {
        this.limit = kPage;
        this.list();
      });
    by('more').addEventListener('click', () => {
      this.limit += 1000;
      this.list();
    });
    for (const id of ['x', 'y', 'log-x', 'log-y']) by(id).addEventListener('change', () => void this.curves());
    by('clear').addEventListener('click', () => {
      this.chosen = [];
      this.list();
      void this.curves();
      by('find').focus();
    });
  }

  // All runs there are, or those that changed.
  take(runs: Run[], all: boolean) {
    const before = new Map(this.runs);
    if (all) this.runs.clear();
    for (const r of runs) this.runs.set(r.id, r);
    this.chosen = this.chosen.filter(id => this.runs.has(id));
    this.list();
    const moved = this.chosen.some(id => JSON.stringify(before.get(id)) !== JSON.stringify(this.runs.get(id)));
    if (moved) {
      for (const id of this.chosen) if (this.runs.get(id)?.state !== before.get(id)?.state) this.details.delete(id);
      void this.curves();
    }
  }

  private list() {
    const words = by<HTMLInputElement>('find').value.toLowerCase().split(/\s+/).filter(w => w);
    const state = by<HTMLSelectElement>('state').value;
    const column = kColumns[this.sort.column]!;
    const sign = this.sort.down ? -1 : 1;
    const found = [...this.runs.values()].filter(r => {
      const text = [r.name, r.algorithm, r.mode, r.data, ...r.tags].join(' ').toLowerCase();
      return (state === '' || r.state === state) && words.every(w => text.includes(w));
    }).sort((a, b) => {
      const p = column.key(a), q = column.key(b);
      if (typeof p === 'number' && typeof q === 'number') return Number.isNaN(p) ? 1 : Number.isNaN(q) ? -1 : sign * (p - q);
      return sign * String(p).localeCompare(String(q));
    });
    by('list').querySelectorAll('thead th').forEach((th, k) => {
      if (k - 1 === this.sort.column) th.setAttribute('aria-sort', this.sort.down ? 'descending' : 'ascending');
      else th.removeAttribute('aria-sort');
    });
    const body = by('list').querySelector('tbody')!;
    const focused = (document.activeElement as HTMLElement | null)?.dataset['run'];
    body.replaceChildren(...found.slice(0, this.limit).map(r => this.row(r)));
    if (focused) body.querySelector<HTMLElement>(`input[data-run="${CSS.escape(focused)}"]`)?.focus();
    by('count').textContent = found.length === this.runs.size ? `${found.length} runs` : `${found.length} of ${this.runs.size} runs`;
    by('empty').hidden = this.runs.size > 0;
    const more = by('more');
    more.hidden = found.length <= this.limit;
    more.textContent = `Show more (${found.length - this.limit} left)`;
  }

  private row(r: Run): HTMLTableRowElement {
    const box = make('input', {type: 'checkbox', 'aria-label': `Compare ${r.name}`, 'data-run': r.id});
    box.checked = this.chosen.includes(r.id);
    box.disabled = !box.checked && (this.chosen.length >= kMostCurves || r.state === 'broken');
    box.addEventListener('change', () => {
      if (box.checked) this.chosen.push(r.id);
      else this.chosen = this.chosen.filter(id => id !== r.id);
      this.list();
      void this.curves();
    });
    const row = make('tr', {}, make('td', {}, box));
    if (r.problem) {
      row.append(make('td', {}, r.name), make('td', {colspan: String(kColumns.length - 1), class: 'state-broken'}, r.problem));
      return row;
    }
    for (const column of kColumns) row.append(make('td', column.number ? {class: 'number'} : {}, column.cell(r)));
    return row;
  }

  // Fetches and draws; asked again meanwhile, it does so once more.
  private async curves() {
    if (this.drawing) {
      this.again = true;
      return;
    }
    this.drawing = true;
    try {
      do {
        this.again = false;
        await this.draw();
      } while (this.again);
    } catch (e) {
      by('caption').textContent = e instanceof Refused ? e.message : 'The server cannot be reached.';
    } finally {
      this.drawing = false;
    }
  }

  private async draw() {
    by('compare').hidden = this.chosen.length === 0;
    if (this.chosen.length === 0) return;
    const ids = [...this.chosen];
    // A run gets its columns with its first traced round, and more of them with its first test.
    for (const id of ids) {
      const known = this.details.get(id);
      if (!known || known.columns.length === 0 || this.runs.get(id)?.state === 'running')
        this.details.set(id, await ask<Detail>('/api/run', {run: id}));
    }
    const details = ids.map(id => this.details.get(id)!);
    const choice = by<HTMLSelectElement>('y');
    const names = [...new Set(details.flatMap(d => d.columns))];
    const before = choice.value || kGood.find(name => names.includes(name)) || names[0] || 'epsilon';
    choice.replaceChildren(...names.map(name => make('option', {value: name}, name.replaceAll('_', ' '))));
    choice.value = names.includes(before) ? before : names[0] ?? '';
    const x = by<HTMLSelectElement>('x').value, y = choice.value;
    const traces = await Promise.all(ids.map(async id => ({
      main: await ask<Trace>('/api/trace', {run: id, x, y, points: kPoints}),
      rounds: await ask<Trace>('/api/trace', {run: id, x: 'round', y: 'epsilon,sigma', points: kPoints}),
    })));
    const labels = this.labels(details);
    const across = by<HTMLSelectElement>('x').selectedOptions[0]?.textContent ?? x;
    const logX = by<HTMLInputElement>('log-x').checked, logY = by<HTMLInputElement>('log-y').checked;
    const none = {x: [], y: []};
    this.chart.show(traces.map((t, k) => ({label: labels[k]!, colour: k, line: t.main.lines[y] ?? none})),
                    {x: across, y: y.replaceAll('_', ' '), logX, logY});
    this.epsilon.show(traces.flatMap((t, k) => {
      const line = t.rounds.lines['epsilon'] ?? none, most = whole(this.runs.get(ids[k]!) ?? details[k]!.run);
      const ends = line.x.length > 0 && Number.isFinite(most) ? [{
        label: `${labels[k]!}: budget`, colour: k, dashed: true,
        line: {x: [line.x[0]!, line.x[line.x.length - 1]!], y: [most, most]},
      }] : [];
      return [{label: labels[k]!, colour: k, line}, ...ends];
    }), {x: 'rounds', y: 'ε', logX: false, logY: false});
    this.sigma.show(traces.map((t, k) => ({label: labels[k]!, colour: k, line: t.rounds.lines['sigma'] ?? none})),
                    {x: 'rounds', y: 'σ', logX: false, logY: false});
    const rows = traces.reduce((n, t) => n + t.main.rows, 0);
    const drawn = traces.reduce((n, t) => n + (t.main.lines[y]?.x.length ?? 0), 0);
    by('caption').textContent = drawn < rows ? `${drawn} of ${rows} points drawn: of each stretch the smallest and the largest.` : `${rows} points.`;
    const infinite = traces.reduce((n, t) => n + (t.main.lines[y]?.infinite ?? 0), 0);
    if (infinite > 0) by('caption').append(` ${infinite} are ∞ and cannot be drawn.`);
    by('details').replaceChildren(...details.map((d, k) => this.card(d, k)));
  }

  // What tells the runs apart, in few words.
  private labels(details: Detail[]): string[] {
    const parts: ((r: Run) => string)[] = [r => r.algorithm, r => r.mode, r => r.data, r => `ε ${shown(value(r.budget_epsilon), true)}`, r => `seed ${r.seed}`];
    const useful = parts.filter(p => new Set(details.map(d => p(d.run))).size > 1);
    const labels = details.map(d => (details.length === 1 ? d.run.name : useful.map(p => p(d.run)).join(', ')));
    return labels.map((label, k) => (label === '' || labels.indexOf(label) !== labels.lastIndexOf(label) ? details[k]!.run.name : label));
  }

  private card(d: Detail, k: number): HTMLElement {
    const r = this.runs.get(d.run.id) ?? d.run;
    const list = make('dl');
    const line = (name: string, what: Node | string) => list.append(make('dt', {}, name), make('dd', {}, what));
    const certified = value(r.certified_epsilon), claimed = value(r.claimed_epsilon);
    line('state', `${r.state}, round ${r.rounds} of ${r.rounds_planned}`);
    line('ε certified', Number.isNaN(certified) ? `at the end; the budget is ${shown(value(r.budget_epsilon), true)}` :
      make('span', certified === Infinity ? {class: 'bad'} : {}, `${shown(certified, true)} at δ = ${shown(value(r.delta))}`));
    if (!Number.isNaN(claimed)) line('ε claimed', `${shown(claimed, true)} by the paper`);
    line('ε spent', gauge(r));
    for (const [name, v] of Object.entries(r.metrics)) line(name.replaceAll('_', ' '), shown(value(v)));
    line('sent', `${bytes(r.bytes_up)} up, ${bytes(r.bytes_down)} down`);
    const fold = (title: string, text: string) =>
      make('details', {}, make('summary', {}, title), make('pre', {tabindex: '0', 'aria-label': `${title} of ${r.name}`}, text));
    const card = make('article', {class: 'card'}, make('h3', {}, make('span', {class: `swatch swatch-${k}`}), r.name), list);
    if (d.certificate) card.append(fold('Certificate', d.certificate));
    card.append(fold('Config', d.config));
    return card;
  }
}
