// The use of processor and memory, read every few seconds while the page is seen, as small plots.

import {get} from './api.js';
import {h} from './dom.js';
import {bytes} from './format.js';

const every = 3000;
const points = 80;

export class Usage {
  constructor(path, app, of, params) {
    Object.assign(this, {path, app, of, params, rows: [], error: null, timer: 0, stopped: false, abort: new AbortController()});
  }
  async start() {
    if (!document.hidden) {
      try {
        this.rows.push(this.of((await get(this.path, this.params, this.abort.signal)).data));
        if (this.rows.length > points) this.rows.shift();
        this.error = null;
      } catch (err) {
        if (err.name === 'AbortError') return;
        this.error = err;
      }
      this.app.render();
    }
    if (!this.stopped) this.timer = setTimeout(() => this.start(), this.error ? 4 * every : every);
  }
  stop() {
    this.stopped = true;
    this.abort.abort();
    clearTimeout(this.timer);
  }
  plot(name, key, limit, text) {
    const values = this.rows.map((r) => r[key]);
    const top = Math.max(limit || 0, ...values, 1e-9);
    const line = values.map((v, i) => (points - values.length + i).toFixed(0) + ',' + (38 - (v / top) * 36).toFixed(1)).join(' ');
    return h('div', {key: name}, h('p', {}, name + ' ', h('b', {}, text)), h('svg', {class: 'plot', viewBox: '0 0 ' + (points - 1) + ' 40', preserveAspectRatio: 'none', role: 'img', 'aria-label': name + ': ' + text}, h('polyline', {points: line})));
  }
  view(limit, on = true) {
    const last = this.rows.at(-1);
    if (!last) return h('p', {class: 'empty'}, !on ? 'It does not run.' : this.error ? this.error.message : 'Loading');
    const cpu = last.ticks ? Math.round(last.cpu) + ' MHz' + (limit.cpu ? ' of ' + limit.cpu : '') : last.cpu.toFixed(1) + ' %';
    return h('div', {class: 'grid pad'}, this.plot('Processor', 'cpu', last.ticks ? limit.cpu : 100, cpu), this.plot('Memory', 'memory', limit.memory, bytes(last.memory) + (limit.memory ? ' of ' + bytes(limit.memory) : '')));
  }
}
