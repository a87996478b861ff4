// The event stream of the cluster, as it happens.

import {chosen, headers, url} from './api.js';
import {h} from './dom.js';
import {lines, sleep} from './live.js';
import {button, link, paths, problem, table} from './parts.js';

const topics = ['*', 'Job', 'Allocation', 'Evaluation', 'Deployment', 'Node', 'NodePool', 'Service', 'CSIVolume', 'CSIPlugin', 'VolumeClaim', 'VolumeAttachment', 'Operator', 'ACLToken', 'ACLPolicy', 'ACLRole'];
const most = 300;
const target = {Job: (e) => paths.job(e.Key, e.Namespace), Allocation: (e) => paths.alloc(e.Key), Evaluation: (e) => paths.evaluation(e.Key), Deployment: (e) => paths.deployment(e.Key), Node: (e) => paths.node(e.Key), CSIVolume: (e) => paths.volume(e.Key, e.Namespace), CSIPlugin: (e) => paths.plugin(e.Key)};

export default function events({app}) {
  const s = {topic: '*', list: [], error: null, paused: false, n: 0, stop: null, open: 0};

  async function run() {
    s.stop?.abort();
    const stop = (s.stop = new AbortController());
    for (let pause = 1000; !stop.signal.aborted; pause = Math.min(30000, pause * 2)) {
      try {
        const res = await fetch(url('/v1/event/stream', {topic: s.topic, namespace: chosen()}), {signal: stop.signal, headers: headers()});
        if (!res.ok) throw Object.assign(new Error(await res.text()), {status: res.status});
        s.error = null;
        app.render();
        await lines(res, (line) => {
          pause = 1000;
          if (s.paused) return;
          for (const e of JSON.parse(line).Events || []) s.list.unshift({n: ++s.n, at: new Date().toISOString().slice(11, 19), Topic: e.Topic, Type: e.Type, Key: e.Key, Namespace: e.Namespace, Index: e.Index, payload: JSON.stringify(e.Payload).slice(0, 20000)});
          s.list.length = Math.min(s.list.length, most);
          app.render();
        });
      } catch (err) {
        if (stop.signal.aborted) return;
        s.error = err;
        app.render();
        if (err.status >= 400 && err.status < 500) return;
      }
      await sleep(pause, stop.signal);
    }
  }
  run();
  return {
    title: () => 'Events',
    view: () => [
      h('div', {class: 'head'}, h('h1', {}, 'Events'), h('div', {class: 'tools'},
        h('select', {'aria-label': 'Topic', value: s.topic, onchange: (e) => { s.topic = e.target.value; s.list = []; run(); app.render(); }}, topics.map((t) => h('option', {key: t, value: t}, t === '*' ? 'All topics' : t))),
        button(s.paused ? 'Continue' : 'Pause', () => { s.paused = !s.paused; app.render(); }), button('Clear', () => { s.list = []; app.render(); }))),
      problem(s.error),
      table('Events', ['Time', '#Index', 'Topic', 'Type', 'Key', 'Namespace', ''], s.list.flatMap((e) => [{key: e.n, cells: [e.at, e.Index, e.Topic, e.Type, target[e.Topic] ? link(target[e.Topic](e), e.Key) : e.Key, e.Namespace, button(s.open === e.n ? 'Close' : 'Show', () => { s.open = s.open === e.n ? 0 : e.n; app.render(); }, {class: 'small'})]},
        ...(s.open === e.n ? [{key: 'open', cells: ['', '', '', '', '', '', h('pre', {class: 'source'}, pretty(e.payload))]}] : [])]), s.error ? 'No events.' : 'Waiting for the next event.'),
    ],
    close: () => s.stop?.abort(),
  };
}

function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 1);
  } catch {
    return text + ' ...';
  }
}
