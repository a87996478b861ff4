// The difference of two versions of a job, as the server computes it.

import {h} from './dom.js';

const sign = {Added: '+ ', Deleted: '- ', Edited: '~ '};

function fieldLine(f, depth) {
  const text = f.Type === 'Added' ? f.New : f.Type === 'Deleted' ? f.Old : f.Old + ' -> ' + f.New;
  const notes = (f.Annotations || []).length ? ' (' + f.Annotations.join(', ') + ')' : '';
  return h('div', {class: f.Type.toLowerCase()}, '  '.repeat(depth) + (sign[f.Type] || '  ') + f.Name + ': ' + text + notes);
}

function block(d, title, depth) {
  const fields = (d.Fields || []).filter((f) => f.Type !== 'None');
  const kids = [...(d.Objects || []), ...(d.TaskGroups || []), ...(d.Tasks || [])].filter((x) => x.Type !== 'None' || x.Updates);
  if (d.Type === 'None' && !fields.length && !kids.length) return [];
  const notes = [...(d.Annotations || []), ...Object.entries(d.Updates || {}).map(([k, n]) => n + ' ' + k)];
  return [
    h('div', {class: d.Type.toLowerCase()}, '  '.repeat(depth) + (sign[d.Type] || '  ') + title + (notes.length ? ' (' + notes.join(', ') + ')' : '')),
    ...fields.map((f) => fieldLine(f, depth + 1)),
    ...(d.Objects || []).flatMap((o) => block(o, o.Name, depth + 1)),
    ...(d.TaskGroups || []).flatMap((g) => block(g, 'group "' + g.Name + '"', depth + 1)),
    ...(d.Tasks || []).flatMap((t) => block(t, 'task "' + t.Name + '"', depth + 1)),
  ];
}

// jobDiff shows a difference; it says so when there is none.
export function jobDiff(d) {
  const lines = d ? block(d, 'job "' + d.ID + '"', 0) : [];
  return h('div', {class: 'diff'}, lines.length ? lines : h('div', {class: 'dim'}, 'No difference.'));
}
