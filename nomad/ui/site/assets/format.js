// Texts for values: sizes, times and durations.

export function bytes(n) {
  if (n === undefined || n === null || Number.isNaN(n)) return '';
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
  let i = 0;
  for (n = Number(n); n >= 1024 && i < units.length - 1; i++) n /= 1024;
  return (i === 0 || n >= 100 ? Math.round(n) : n.toFixed(1).replace(/\.0$/, '')) + ' ' + units[i];
}

// ms is a time as the API gives it, nanoseconds or a text, in milliseconds; 0 is none.
export function ms(t) {
  if (!t) return 0;
  if (typeof t === 'number') return t / 1e6;
  const n = Date.parse(t);
  return Number.isNaN(n) || n < 0 ? 0 : n;
}

// span is a duration in milliseconds as a short text.
export function span(d) {
  const s = Math.abs(d) / 1000;
  if (s < 1) return Math.round(Math.abs(d)) + ' ms';
  if (s < 10) return s.toFixed(1).replace(/\.0$/, '') + ' s';
  if (s < 60) return Math.round(s) + ' s';
  if (s < 3600) return Math.floor(s / 60) + ' min' + (s < 600 && s % 60 >= 1 ? ' ' + Math.floor(s % 60) + ' s' : '');
  if (s < 86400) return Math.floor(s / 3600) + ' h' + (s < 36000 && s % 3600 >= 60 ? ' ' + Math.floor((s % 3600) / 60) + ' min' : '');
  return Math.floor(s / 86400) + ' d';
}

// ahead is how many milliseconds the clock of the agent is ahead of this one, as its responses report it by the second.
let ahead = 0;

export function setClock(date) {
  const at = Date.parse(date);
  if (Number.isNaN(at)) return;
  const off = at + 500 - Date.now();
  ahead = Math.abs(off) > 3000 ? off : 0;
}

// now is the time of the agent.
export const now = () => Date.now() + ahead;

// parseSpan reads a duration such as 90s or 1h30m as nanoseconds; NaN is none.
export function parseSpan(text) {
  const t = text.trim();
  if (!/^(\d+(\.\d+)?(ms|s|m|h|d))+$/.test(t)) return NaN;
  return [...t.matchAll(/([\d.]+)(ms|s|m|h|d)/g)].reduce((sum, [, n, unit]) => sum + Math.round(n * {ms: 1e6, s: 1e9, m: 60e9, h: 3600e9, d: 86400e9}[unit]), 0);
}

// age is how long ago a time was. A clock that differs from the server's by little is no future.
export function age(t) {
  const at = ms(t);
  if (!at) return '';
  const d = now() - at;
  if (d < -5000) return 'in ' + span(d);
  return d < 1000 ? 'now' : span(d - (d % 1000)) + ' ago';
}

export function clock(t) {
  const at = ms(t);
  return at ? new Date(at).toISOString().replace('T', ' ').replace(/\.\d+Z$/, 'Z') : '';
}

export const short = (id) => (id || '').slice(0, 8);
export const nanos = (n) => (n ? span(n / 1e6) : '');
export const plural = (n, word) => n.toLocaleString('en') + ' ' + word + (n === 1 ? '' : 's');

// stat is a statistic or an attribute of a device as a text, such as "512 / 8192 MiB".
export function stat(v) {
  if (!v) return '';
  const ratio = (n, of) => (n === undefined ? undefined : String(n) + (of === undefined ? '' : ' / ' + of));
  const text = ratio(v.FloatNumeratorVal ?? v.Float, v.FloatDenominatorVal) ?? ratio(v.IntNumeratorVal ?? v.Int, v.IntDenominatorVal) ?? v.StringVal ?? v.String ?? v.BoolVal ?? v.Bool;
  return text === undefined ? '' : String(text) + (v.Unit ? ' ' + v.Unit : '');
}
