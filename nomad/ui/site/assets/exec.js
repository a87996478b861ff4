// A shell in a task. The terminal is loaded when this page is opened.

import {seg, token, url} from './api.js';
import {h} from './dom.js';
import {button, card, crumbs, decode, link, paths, problem} from './parts.js';

const base = new URL('.', import.meta.url).pathname;

export default function exec({app, rest, query}) {
  const [id, task] = rest.split('/').map(decode);
  // Style elements of the terminal are permitted on the page of the terminal only: others are left with a full load.
  if (!document.querySelector('meta[name=ui-terminal]')) {
    location.reload();
    return {title: () => 'Shell', view: () => h('p', {class: 'empty'}, 'Loading')};
  }
  const s = {command: query.get('command') || '/bin/sh', state: 'closed', error: null, socket: null, term: null, fit: null, el: null, watch: null};

  async function open() {
    s.error = null;
    s.state = 'opening';
    app.render();
    try {
      if (!s.term) {
        if (!document.querySelector('link[data-terminal]')) {
          const css = document.createElement('link');
          Object.assign(css, {rel: 'stylesheet', href: base + 'vendor/xterm.css'});
          css.dataset.terminal = '';
          document.head.append(css);
        }
        const [{Terminal}, {FitAddon}] = await Promise.all([import('./vendor/xterm.js'), import('./vendor/addon-fit.js')]);
        s.term = new Terminal({cursorBlink: true, fontSize: 13, screenReaderMode: true, scrollback: 5000});
        s.fit = new FitAddon();
        s.term.loadAddon(s.fit);
        s.term.open(s.el);
        s.term.onData((text) => send({stdin: {data: encode(text)}}));
        s.term.onResize(({cols, rows}) => send({tty_size: {width: cols, height: rows}}));
        s.watch = new ResizeObserver(() => s.fit.fit());
        s.watch.observe(s.el);
      }
      s.term.reset();
      s.fit.fit();
    } catch (err) {
      s.state = 'closed';
      s.error = new Error('The terminal could not be loaded: ' + err.message);
      return app.render();
    }
    const words = JSON.stringify(s.command.trim().split(/\s+/));
    const at = url('/v1/client/allocation/' + seg(id) + '/exec', {task, tty: 'true', command: words, ws_handshake: 'true'});
    const socket = (s.socket = new WebSocket((location.protocol === 'https:' ? 'wss://' : 'ws://') + location.host + at));
    const alive = setInterval(() => send({}), 10000);
    socket.onopen = () => {
      socket.send(JSON.stringify({version: 1, auth_token: token.get()}));
      send({tty_size: {width: s.term.cols, height: s.term.rows}});
      s.state = 'open';
      s.term.focus();
      app.render();
    };
    socket.onmessage = (e) => {
      const m = JSON.parse(e.data);
      for (const out of [m.stdout, m.stderr]) if (out?.data) s.term.write(decoded(out.data));
      if (m.exited) s.term.write('\r\nThe command ended with exit code ' + (m.result?.exit_code || 0) + '.\r\n');
    };
    socket.onclose = (e) => {
      clearInterval(alive);
      if (s.socket !== socket) return;
      s.state = 'closed';
      if (e.reason) s.error = new Error(e.reason);
      else if (e.code === 1006) s.error = new Error('The connection was lost.');
      app.render();
    };
  }
  function send(message) {
    if (s.socket?.readyState === WebSocket.OPEN) s.socket.send(JSON.stringify(message));
  }
  function close() {
    s.socket?.close();
  }
  return {
    title: () => 'Shell ' + task,
    view: () => [
      crumbs(link('/ui/jobs', 'Jobs'), link(paths.alloc(id), 'Allocation ' + id.slice(0, 8)), task),
      h('h1', {}, 'Shell in ' + task),
      problem(s.error),
      card('Terminal', h('div', {class: 'terminal', opaque: true, ref: (el) => { s.el = el; open(); }}), [
        h('input', {'aria-label': 'Command', value: s.command, disabled: s.state !== 'closed', oninput: (e) => { s.command = e.target.value; }}),
        s.state === 'closed' ? button('Run', open, {class: 'primary', disabled: !s.command.trim()}) : button('Close', close)]),
    ],
    close: () => {
      close();
      s.watch?.disconnect();
      s.term?.dispose();
    },
  };
}

function encode(text) {
  let out = '';
  for (const b of new TextEncoder().encode(text)) out += String.fromCharCode(b);
  return btoa(out);
}

const decoded = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
