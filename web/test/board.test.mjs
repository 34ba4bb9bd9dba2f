// The board in a real browser: runs come live, compare, the calculator's figures are the command's, tokens,
// restarts, small and large screens, the keyboard, and what axe finds. TACIT_PROGRAM names the program; with
// TACIT_SHOTS=folder it leaves screenshots there. Where there is no Chromium it exits with 77: skipped.
import {AxeBuilder} from '@axe-core/playwright';
import assert from 'node:assert/strict';
import {spawn, spawnSync} from 'node:child_process';
import {cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, renameSync, rmSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {after, before, test} from 'node:test';
import {chromium} from 'playwright-core';

const program = process.env.TACIT_PROGRAM;
const shots = process.env.TACIT_SHOTS;
const executable = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find(existsSync);
if (!executable) {
  console.log('skipped: no Chromium; as root: apt-get install chromium');
  process.exit(77);
}

const home = mkdtempSync(join(tmpdir(), 'tacit-board-'));
const runs = join(home, 'runs');
mkdirSync(runs);
let browser, board;
const complaints = [];

// A board on a free port, or on the one given; resolves once it answers.
const serve = (...more) => serveFolder(runs, ...more);
function serveFolder(folder, ...more) {
  return new Promise((resolve, reject) => {
    const process_ = spawn(program, ['board', folder, '--json', '--quiet', ...more], {stdio: ['ignore', 'pipe', 'inherit']});
    let text = '';
    process_.stdout.on('data', data => {
      text += data;
      try {
        resolve({process: process_, ...JSON.parse(text)});
      } catch {
        // more to come
      }
    });
    process_.on('exit', code => reject(new Error(`tacit board ended with ${code}: ${text}`)));
  });
}
function end(served) {
  return new Promise(resolve => {
    served.process.on('exit', code => resolve(code));
    served.process.kill('SIGTERM');
  });
}

function experiment(name, settings = {}) {
  const {rounds = 60, seed = 1, rows = 6000, epsilon = 2} = settings;
  const file = join(home, `${name}.toml`);
  writeFileSync(file, `
[data]
source = "synthetic-logistic"
rows = ${rows}
features = 20
clients = 10
row_norm = "clip"
test = "synthetic-logistic"
[model]
name = "logistic"
[privacy]
epsilon = ${epsilon}
delta = 1e-5
[algorithm]
name = "primal-dual"
rounds = ${rounds}
[experiment]
name = "${name}"
seed = ${seed}
output = "${runs}"
trace_every = 1
`);
  return file;
}
function train(name, settings) {
  const done = spawnSync(program, ['train', experiment(name, settings), '--quiet', '--json'], {encoding: 'utf8'});
  assert.equal(done.status, 0, done.stdout + done.stderr);
  return JSON.parse(done.stdout);
}

async function open(url, options = {}) {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  const own = url.startsWith('file:') ? url : new URL(url).origin;
  page.on('console', m => {
    if (m.type() === 'error') complaints.push(`console: ${m.text()}`);
  });
  page.on('pageerror', e => complaints.push(`page: ${e}`));
  page.on('request', r => {
    if (!r.url().startsWith(own) && !r.url().startsWith('data:')) complaints.push(`request to ${r.url()}`);
  });
  await page.goto(url);
  return page;
}
const points = page => page.locator('#chart').evaluate(e => Number(e.dataset.points ?? 0));
const nothingWrong = () => assert.deepEqual(complaints.splice(0), []);
async function shoot(page, name) {
  if (shots) await page.screenshot({path: join(shots, `${name}.png`)});
}
async function waitFor(what, condition) {
  for (let k = 0; k < 600; ++k) {
    if (await condition()) return;
    await new Promise(r => setTimeout(r, 100));
  }
  assert.fail(`waited a minute for ${what}`);
}

before(async () => {
  browser = await chromium.launch({executablePath: executable, args: ['--no-sandbox', '--disable-gpu']});
  train('first', {seed: 1});
  train('second', {seed: 2, epsilon: 1});
  board = await serve('--listen', '127.0.0.1:0');
});
after(async () => {
  await browser?.close();
  board?.process.kill('SIGKILL');
  rmSync(home, {recursive: true, force: true});
});

test('a run is watched while it goes on', async () => {
  const page = await open(board.url);
  await page.getByLabel('Compare first').waitFor();
  const live = spawn(program, ['train', experiment('live', {rounds: 200000}), '--quiet'], {stdio: 'ignore'});
  try {
    const box = page.getByLabel('Compare live');
    await box.waitFor();
    await box.check();
    await waitFor('a curve', async () => (await points(page)) > 1);
    const early = await page.locator('#details article dd').first().textContent();
    assert.match(early, /running/);
    await waitFor('more rounds', async () => (await page.locator('#details article dd').first().textContent()) !== early);
  } finally {
    live.kill('SIGINT');
    await new Promise(r => live.on('exit', r));
  }
  await waitFor('its end', async () => /stopped|finished/.test(await page.locator('#details article dd').first().textContent()));
  nothingWrong();
  await page.context().close();
});

test('a run that is chosen before its first round gets its curve', async () => {
  const from = readdirSync(runs).find(name => name.startsWith('first')), early = join(runs, 'early');
  mkdirSync(early);
  cpSync(join(runs, from, 'config.toml'), join(early, 'config.toml'));
  const page = await open(board.url);
  await page.getByLabel('Compare early').check();
  await waitFor('a card', async () => (await page.locator('#details article').count()) === 1);
  cpSync(join(runs, from, 'trace.jsonl'), join(early, 'trace.jsonl'));
  await waitFor('a curve', async () => (await points(page)) > 1);
  await page.locator('#state').selectOption('broken');
  await waitFor('no broken runs', async () => (await page.locator('#list tbody tr').count()) === 0);
  nothingWrong();
  await page.context().close();
  rmSync(early, {recursive: true});
});

test('two runs are compared, by keyboard alone', async () => {
  const page = await open(board.url);
  await page.getByLabel('Compare first').focus();
  await page.keyboard.press('Space');
  await page.getByLabel('Compare second').focus();
  await page.keyboard.press('Space');
  await waitFor('two curves', () => page.locator('#chart').evaluate(e => e.dataset.curves === '2'));
  assert.equal(await page.locator('#details article').count(), 2);
  assert.match(await page.locator('#chart').getAttribute('aria-label'), /Chart of .* over rounds\. ε 2, seed 1: from .*; ε 1, seed 2: from/);
  await page.locator('#x').selectOption('epsilon');
  await waitFor('the other axis', async () => /over ε spent/.test(await page.locator('#chart').getAttribute('aria-label')));
  assert.match(await page.locator('#details').textContent(), /ε certified/);
  await shoot(page, 'board');
  // What was typed is found; nothing else is shown.
  await page.getByLabel('Find').fill('second');
  await waitFor('one row', async () => (await page.locator('#list tbody tr').count()) === 1);
  nothingWrong();
  await page.context().close();
});

test("the calculator's figures are the command's", async () => {
  const page = await open(`${board.url}#calculator`);
  const figure = page.locator('#answer .figure');
  const read = async () => ({epsilon: Number(await figure.getAttribute('data-epsilon')), noise: Number(await figure.getAttribute('data-noise')), command: await page.locator('#answer pre').textContent()});
  const check = async () => {
    const here = await read();
    const there = spawnSync(program, [...here.command.split(' ').slice(1), '--json'], {encoding: 'utf8'});
    assert.equal(there.status, 0, there.stdout);
    const answer = JSON.parse(there.stdout);
    assert.ok(Math.abs(answer.epsilon - here.epsilon) <= 1e-9 * here.epsilon, `${here.command}: ${here.epsilon}, ${answer.epsilon}`);
    assert.ok(Math.abs(answer.noise_multiplier - here.noise) <= 1e-9 * here.noise, `${here.command}: ${here.noise}, ${answer.noise_multiplier}`);
    return here;
  };
  await figure.waitFor();
  const before_ = await check();
  // The slider by keyboard: fewer rounds cost less.
  await page.getByLabel('rounds, slider').focus();
  for (let k = 0; k < 20; ++k) await page.keyboard.press('ArrowLeft');
  await waitFor('another figure', async () => (await read()).epsilon < before_.epsilon);
  await check();
  await page.getByLabel('each with a probability, in secret').check();
  await page.getByLabel('the noise from ε').check();
  await waitFor('the noise', async () => /noise multiplier =/.test(await figure.textContent().catch(() => '')));
  await check();
  await shoot(page, 'calculator');
  await page.locator('#calc-delta').fill('2');
  await page.getByText(/delta|δ/i).and(page.locator('#answer .bad')).waitFor();
  complaints.splice(0);  // the browser itself notes the refused request
  await page.context().close();
});

test('a wrong token stays outside', async () => {
  const file = join(home, 'token');
  writeFileSync(file, 'correct-horse-battery\n');
  const guarded = await serve('--listen', '0.0.0.0:0', '--token-file', file);
  try {
    const url = `http://127.0.0.1:${guarded.port}/`;
    assert.equal((await fetch(`${url}api/runs`)).status, 401);
    const page = await open(url);
    await page.locator('#token').fill('wrong-wrong-wrong-wrong');
    await page.getByRole('button', {name: 'Open'}).click();
    await page.getByText('This is not the token.').waitFor();
    assert.equal(await page.locator('#list').count(), 0);
    const axe = await new AxeBuilder({page}).analyze();
    assert.deepEqual(axe.violations.filter(v => ['serious', 'critical'].includes(v.impact)).map(v => v.id), []);
    await page.locator('#token').fill('correct-horse-battery');
    await page.getByRole('button', {name: 'Open'}).click();
    await page.getByLabel('Compare first').waitFor();
    await page.context().close();
  } finally {
    await end(guarded);
  }
  complaints.splice(0);  // the browser itself notes answers of 401
});

test('a restarted server is found again', async () => {
  const page = await open(board.url);
  await page.getByText('live', {exact: true}).waitFor();
  assert.equal(await end(board), 0);
  await page.getByText('connection lost, trying again …').waitFor();
  train('third', {seed: 3});
  board = await serve('--listen', `127.0.0.1:${new URL(board.url).port}`);
  await page.getByText('live', {exact: true}).waitFor({timeout: 60000});
  await page.getByLabel('Compare third').waitFor({timeout: 60000});
  complaints.splice(0);  // the browser itself notes the lost connection
  await page.context().close();
});

for (const [width, height, scheme] of [[360, 740, 'light'], [1280, 800, 'dark'], [3840, 2160, 'light']])
  test(`accessible and whole at ${width} pixels, ${scheme}`, async () => {
    const page = await open(board.url, {viewport: {width, height}, colorScheme: scheme, reducedMotion: 'reduce'});
    await page.getByLabel('Compare first').check();
    await waitFor('a curve', async () => (await points(page)) > 1);
    const whole = async what => {
      const over = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      assert.ok(over <= 0, `${what} is ${over} pixels too wide`);
      const axe = await new AxeBuilder({page}).analyze();
      assert.deepEqual(axe.violations.filter(v => ['serious', 'critical'].includes(v.impact)).map(v => `${v.id}: ${v.nodes.map(n => n.html).join(' ')}`), []);
    };
    await whole('the list');
    await shoot(page, `board-${width}`);
    await page.getByRole('link', {name: 'Privacy calculator'}).click();
    await page.locator('#answer .figure').waitFor();
    await whole('the calculator');
    nothingWrong();
    await page.context().close();
  });

for (const scheme of ['light', 'dark'])
  test(`a report is accessible and asks for nothing, ${scheme}`, async () => {
    const file = join(home, 'report.html');
    const made = spawnSync(program, ['report', runs, '-o', file, '--quiet'], {encoding: 'utf8'});
    assert.equal(made.status, 0, made.stdout + made.stderr);
    const page = await open(`file://${file}`, {viewport: {width: 360, height: 740}, colorScheme: scheme});
    const over = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    assert.ok(over <= 0, `the report is ${over} pixels too wide`);
    const axe = await new AxeBuilder({page}).analyze();
    assert.deepEqual(axe.violations.filter(v => ['serious', 'critical'].includes(v.impact)).map(v => `${v.id}: ${v.nodes.map(n => n.html).join(' ')}`), []);
    assert.ok((await page.pdf({format: 'A4'})).length > 10000);
    // Paper has what is folded on the screen: innerText is of what is shown.
    const shown = () => page.evaluate(() => document.body.innerText);
    assert.doesNotMatch(await shown(), /PRIVACY CERTIFICATE|trace_every = 1/);
    await page.emulateMedia({media: 'print'});
    assert.match(await shown(), /PRIVACY CERTIFICATE[^]*trace_every = 1/);
    nothingWrong();
    await page.context().close();
  });

test('hostile names are text', async () => {
  const from = train('hostile', {seed: 4}).folder;
  const to = join(runs, '<img src=x onerror=alert(1)>');
  cpSync(from, to, {recursive: true});
  const page = await open(board.url);
  await page.getByText('<img src=x onerror=alert(1)>').first().waitFor();
  await page.getByLabel('Compare <img src=x onerror=alert(1)>').check();
  await waitFor('a card', async () => (await page.locator('#details article').count()) === 1);
  assert.equal(await page.locator('img').count(), 0);
  nothingWrong();
  rmSync(to, {recursive: true});
  await page.context().close();
});

// Times depend on the machine and on what else it does, so none is asserted: what is asserted is a ratio of two shortest times of
// many, taken by turns in this run. docs/board.md has the figures that this prints.
async function shortest(times, ...tasks) {
  const best = tasks.map(() => Infinity);
  for (let k = 0; k < times; ++k)
    for (const [t, task] of tasks.entries()) best[t] = Math.min(best[t], await task());
  return best;
}

test('a thousand runs cost ten times a hundred', async () => {
  const from = train('many', {seed: 5}).folder, hundred = join(home, 'hundred');
  for (let k = 0; k < 1000; ++k) cpSync(from, join(runs, `copy-${k}`), {recursive: true});
  for (let k = 0; k < 100; ++k) cpSync(from, join(hundred, `copy-${k}`), {recursive: true});
  const few = await serveFolder(hundred, '--listen', '127.0.0.1:0');
  try {
    const count = {};
    const list = url => async () => {
      const begin = performance.now();
      count[url] = (await (await fetch(`${url}api/runs`)).json()).length;
      return performance.now() - begin;
    };
    const terminal = (folder, least) => () => {
      const begin = performance.now();
      const done = spawnSync(program, ['runs', folder, '--json'], {encoding: 'utf8', maxBuffer: 1 << 28});
      const took = performance.now() - begin;
      assert.equal(done.status, 0, done.stderr);
      assert.ok(JSON.parse(done.stdout).runs.length >= least);
      return took;
    };
    // Of the server alone, in ticks of a hundredth of a second: utime and stime.
    const used = () => readFileSync(`/proc/${board.process.pid}/stat`, 'utf8').split(' ').slice(13, 15).reduce((a, b) => a + Number(b), 0) * 10;
    const before_ = used();
    const [floor, all] = await shortest(15, list(few.url), list(board.url));
    const each = (used() - before_) / 15;
    assert.equal(count[few.url], 100);
    assert.ok(count[board.url] >= 1000);
    const [start, in100, in1000] = await shortest(5, () => {
      const begin = performance.now();
      spawnSync(program, ['--version']);
      return performance.now() - begin;
    }, terminal(hundred, 100), terminal(runs, 1000));
    console.log(`# listed by the board: 100 runs in ${floor.toFixed(0)} ms, ${count[board.url]} in ${all.toFixed(0)} ms, of which its processor works ${each.toFixed(0)} ms`);
    console.log(`# listed by tacit runs: 100 in ${in100.toFixed(0)} ms, ${count[board.url]} in ${in1000.toFixed(0)} ms, of which it takes ${start.toFixed(0)} ms to start`);
    // A run of a thousand costs no more than three of a hundred: what grows with the square of their number costs ten.
    assert.ok(all / count[board.url] <= 3 * floor / 100, `${all} ms for ${count[board.url]}, ${floor} ms for 100`);
    assert.ok(in1000 / count[board.url] <= 3 * in100 / 100, `${in1000} ms for ${count[board.url]}, ${in100} ms for 100`);
  } finally {
    await end(few);
  }
});

test('a million points are drawn as two thousand are', async () => {
  const from = train('long', {seed: 6}).folder;
  // Traces of a million and of two thousand rounds, each with one spike that no drawing may lose.
  const traced = (name, rounds) => {
    cpSync(from, join(runs, name), {recursive: true});
    const file = join(runs, name, 'trace.jsonl');
    const {sigma} = JSON.parse(readFileSync(file, 'utf8').split('\n')[0]);
    const spike = Math.floor(0.777777 * rounds), lines = [];
    for (let k = 1; k <= rounds; ++k) lines.push(`{"answered":10,"bytes_down":${k},"bytes_up":${k},"epsilon":${k / rounds},"metrics":{"loss":${k === spike ? 42 : 1 / k}},"round":${k},"sigma":${sigma}}`);
    writeFileSync(`${file}.new`, `${lines.join('\n')}\n`);
    renameSync(`${file}.new`, file);
  };
  traced('points-few', 2000);
  traced('points-many', 1e6);
  const show = async (name, caption) => {
    const page = await open(board.url);
    await page.getByLabel('Find').fill(name);
    await page.getByLabel(`Compare ${name}`).check();
    await page.locator('#y').waitFor();
    await waitFor(`the points of ${name}`, async () => caption.test((await page.locator('#caption').textContent()) ?? ''));
    return page;
  };
  const few = await show('points-few', /^2000 points/), many = await show('points-many', /^\d+ of 1000000 points drawn/);
  assert.equal(await points(few), 2000);
  assert.ok((await points(many)) <= 2000 && (await points(many)) > 1000, `${await points(many)} points`);
  const trace = await (await fetch(`${board.url}api/trace?run=${encodeURIComponent('0/points-many')}&x=round&y=loss&points=2000`)).json();
  assert.equal(Math.max(...trace.lines.loss.y), 42);
  assert.ok(trace.lines.loss.y.length <= 2000);
  // Redrawing does not hold the page up: frames keep coming while the axis changes, as they do with two thousand points.
  const slowest = page => async () => {
    await page.bringToFront();
    return page.evaluate(() => new Promise(resolve => {
      let last, worst = 0, frames = 0;
      const frame = now => {
        if (last !== undefined) worst = Math.max(worst, now - last);
        last = now;
        if (++frames < 30) requestAnimationFrame(frame);
        else resolve(worst);
      };
      document.getElementById('log-y').click();
      requestAnimationFrame(frame);
    }));
  };
  const [floor, all] = await shortest(9, slowest(few), slowest(many));
  console.log(`# slowest of 30 frames while redrawing: ${floor.toFixed(0)} ms with 2,000 points, ${all.toFixed(0)} ms with 1,000,000`);
  assert.ok(all <= 3 * floor, `${all} ms with a million points, ${floor} ms with two thousand`);
  nothingWrong();
  for (const page of [few, many]) await page.context().close();
});
