// ε from noise and noise from ε, asked of the accountant while sliders move.
import type {Answer} from './api';
import {Refused, ask, shown, value} from './api';
import {by, make} from './dom';

interface Slider {
  name: string;
  label: string;
  low: number;
  high: number;
  start: number;
  whole?: boolean;
}

const kSliders: Slider[] = [
  {name: 'noise_multiplier', label: 'noise multiplier (σ / sensitivity)', low: 0.1, high: 1000, start: 10},
  {name: 'epsilon', label: 'ε', low: 0.01, high: 20, start: 1},
  {name: 'rounds', label: 'rounds', low: 1, high: 1e5, start: 100, whole: true},
  {name: 'rate', label: 'share sampled in a round', low: 1e-4, high: 1, start: 0.01},
  {name: 'delta', label: 'δ', low: 1e-12, high: 1e-2, start: 1e-5},
];

export class Calculator {
  private readonly form = by<HTMLFormElement>('calc');
  private asked: AbortController | undefined;
  private timer = 0;

  constructor() {
    const radio = (name: string, choice: string, text: string, on: boolean) => {
      const input = make('input', {type: 'radio', name, value: choice});
      input.checked = on;
      return make('label', {}, input, text);
    };
    this.form.append(
      make('fieldset', {}, make('legend', {}, 'Find'), radio('find', 'epsilon', 'ε from the noise', true), radio('find', 'noise', 'the noise from ε', false)),
      make('fieldset', {}, make('legend', {}, 'Who takes part in a round'), radio('sampling', 'none', 'everyone', true),
           radio('sampling', 'poisson', 'each with a probability, in secret', false), radio('sampling', 'fixed', 'a secret sample of fixed size', false)));
    for (const s of kSliders) this.form.append(this.row(s));
    this.form.append(make('p', {id: 'neighbours'}));
    this.form.addEventListener('input', () => this.later());
    this.form.addEventListener('submit', e => e.preventDefault());
    this.later();
  }

  // Slider and number are one figure; the slider goes in equal ratios.
  private row(s: Slider): HTMLElement {
    const place = (v: number) => String(Math.round(1000 * Math.log(v / s.low) / Math.log(s.high / s.low)));
    const label = make('label', {for: `calc-${s.name}`}, s.label);
    const slider = make('input', {type: 'range', min: '0', max: '1000', value: place(s.start), 'aria-label': `${s.label}, slider`});
    const number = make('input', {id: `calc-${s.name}`, name: s.name, inputmode: 'decimal', value: String(s.start)});
    const text = () => slider.setAttribute('aria-valuetext', number.value);
    slider.addEventListener('input', () => {
      const v = s.low * (s.high / s.low) ** (Number(slider.value) / 1000);
      number.value = s.whole ? String(Math.round(v)) : String(Number(v.toPrecision(3)));
      text();
    });
    number.addEventListener('input', () => {
      const v = Number(number.value);
      if (v > 0) slider.value = place(Math.min(Math.max(v, s.low), s.high));
      text();
    });
    text();
    return make('div', {class: 'row', id: `row-${s.name}`}, label, slider, number);
  }

  private later() {
    const data = new FormData(this.form);
    const find = String(data.get('find')), sampling = String(data.get('sampling'));
    by('row-noise_multiplier').hidden = find === 'noise';
    by('row-epsilon').hidden = find === 'epsilon';
    by('row-rate').hidden = sampling === 'none';
    by('neighbours').textContent = sampling === 'poisson' ?
      'Neighbours: data sets with and without one unit.' : 'Neighbours: data sets in which one unit is replaced by another.';
    clearTimeout(this.timer);
    this.timer = setTimeout(() => void this.now(find, sampling, data), 120);
  }

  private async now(find: string, sampling: string, data: FormData) {
    this.asked?.abort();
    this.asked = new AbortController();
    const parameters: Record<string, string> = {find, sampling};
    for (const s of kSliders) if (!by(`row-${s.name}`).hidden) parameters[s.name] = String(data.get(s.name)).trim();
    const out = by('answer');
    try {
      const a = await ask<Answer>('/api/calculate', parameters, this.asked.signal);
      const epsilon = value(a.epsilon), noise = value(a.noise_multiplier);
      const figure = make('p', {class: 'figure'}, find === 'epsilon' ? `ε = ${shown(epsilon, true)}` : `noise multiplier = ${shown(noise, true)}`);
      figure.dataset['epsilon'] = String(a.epsilon);
      figure.dataset['noise'] = String(a.noise_multiplier);
      out.replaceChildren(figure,
        make('p', {}, find === 'epsilon' ? `The truth is at least ${shown(value(a.epsilon_lower))}.` : `It gives ε = ${shown(epsilon, true)}.`, ` Method: ${a.method}.`),
        make('p', {}, 'The same on the command line:'), make('pre', {tabindex: '0', 'aria-label': 'Command'}, a.command));
    } catch (e) {
      if ((e as Error).name === 'AbortError') return;
      // What was asked before is still being calculated.
      if (e instanceof Refused && e.status === 503) this.timer = setTimeout(() => void this.now(find, sampling, data), 1000);
      out.replaceChildren(make('p', {class: 'bad'}, e instanceof Refused ? e.message : 'The server cannot be reached.'));
    }
  }
}
