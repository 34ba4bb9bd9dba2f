// The page: two views and one stream of news from the server.
import type {Run} from './api';
import {Calculator} from './calculator';
import {by} from './dom';
import {Runs} from './runs';

const runs = new Runs();
let calculator: Calculator | undefined;

function turn() {
  const page = location.hash === '#calculator' ? 'calculator' : 'runs';
  for (const name of ['runs', 'calculator']) {
    by(name).hidden = name !== page;
    const link = by(`nav-${name}`);
    if (name === page) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  }
  if (page === 'calculator') calculator ??= new Calculator();
}
addEventListener('hashchange', turn);
turn();

// A browser gives a stream up when the answer is an error, for instance of a proxy: then we try again.
function listen() {
  const stream = new EventSource('/api/events');
  const say = (text: string, lost: boolean) => {
    by('link').textContent = text;
    by('link').classList.toggle('lost', lost);
  };
  stream.addEventListener('open', () => say('live', false));
  stream.addEventListener('all', e => runs.take(JSON.parse((e as MessageEvent<string>).data) as Run[], true));
  stream.addEventListener('changed', e => runs.take(JSON.parse((e as MessageEvent<string>).data) as Run[], false));
  stream.addEventListener('error', () => {
    say('connection lost, trying again …', true);
    if (stream.readyState === EventSource.CLOSED) {
      stream.close();
      setTimeout(listen, 2000);
    }
  });
}
listen();
