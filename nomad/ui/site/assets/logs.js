// Logs of a task, followed as they are written.

import {headers, seg, url} from './api.js';
import {sleep} from './live.js';
import {h} from './dom.js';
import {button, card, problem} from './parts.js';

const keep = 400000; // characters on the page
const first = 60000; // bytes from the end at the start

export function logs({app, id, query, alloc}) {
  const s = {task: query.get('task') || '', type: query.get('type') === 'stderr' ? 'stderr' : 'stdout', follow: true, error: null, stop: null, el: null};

  function show(text) {
    const el = s.el;
    if (!el || !text) return;
    const bottom = el.scrollHeight - el.scrollTop - el.clientHeight < 40;
    el.append(text);
    let size = el.textContent.length;
    while (size > keep && el.childNodes.length > 1) {
      size -= el.firstChild.data.length;
      el.firstChild.remove();
    }
    if (bottom) el.scrollTop = el.scrollHeight;
  }

  async function follow() {
    s.stop?.abort();
    const stop = (s.stop = new AbortController());
    s.error = null;
    if (s.el) s.el.replaceChildren();
    for (let pause = 1000; !stop.signal.aborted; pause = Math.min(15000, pause * 2)) {
      try {
        const res = await fetch(url('/v1/client/fs/logs/' + seg(id), {task: s.task, type: s.type, follow: s.follow ? 'true' : '', origin: 'end', offset: first, plain: 'true'}), {signal: stop.signal, headers: headers()});
        if (!res.ok) throw Object.assign(new Error(await res.text()), {status: res.status});
        if (s.el) s.el.replaceChildren();
        s.error = null;
        app.render();
        const reader = res.body.pipeThrough(new TextDecoderStream()).getReader();
        for (;;) {
          const {done, value} = await reader.read();
          if (done) break;
          show(value);
        }
        if (!s.follow) return;
      } catch (err) {
        if (stop.signal.aborted) return;
        s.error = err;
        app.render();
        if (err.status >= 400 && err.status < 500) return;
      }
      await sleep(pause, stop.signal);
    }
  }
  const pick = (name, value) => { s[name] = value; follow(); app.render(); };

  return {
    view: () => {
      const tasks = Object.keys(alloc()?.TaskStates || {});
      if (!tasks.length) return h('p', {class: 'empty'}, 'The node has not reported any task yet.');
      if (!tasks.includes(s.task)) s.task = tasks[0];
      return card('Logs', [problem(s.error), h('pre', {class: 'logs', tabindex: 0, opaque: true, 'aria-label': 'Log of task ' + s.task, ref: (el) => { s.el = el; follow(); }})], [
        h('select', {'aria-label': 'Task', value: s.task, onchange: (e) => pick('task', e.target.value)}, tasks.map((t) => h('option', {key: t, value: t, selected: t === s.task}, t))),
        h('select', {'aria-label': 'Stream', value: s.type, onchange: (e) => pick('type', e.target.value)}, ['stdout', 'stderr'].map((t) => h('option', {key: t, value: t, selected: t === s.type}, t))),
        button(s.follow ? 'Pause' : 'Follow', () => { s.follow = !s.follow; if (s.follow) follow(); else s.stop?.abort(); app.render(); }),
      ]);
    },
    close: () => s.stop?.abort(),
  };
}
