// Findings of the doctor: what is wrong, since when, what happens next and the command that helps.

import {h} from './dom.js';
import {age} from './format.js';
import {badge, command, link, paths, time} from './parts.js';

export function findings(list, names) {
  if (!list?.length) return h('p', {class: 'empty'}, 'Nothing is wrong.');
  return list.map((f, i) => h('div', {class: 'reason', key: i + f.Kind + (f.VolumeID || '') + (f.AllocID || '')},
    h('p', {}, badge(f.Severity), ' ', names && f.VolumeID ? [link(paths.volume(f.VolumeID, f.Namespace), f.VolumeID), ': '] : null, f.Text, f.Since ? [' ', h('span', {class: 'dim'}, '(', time(f.Since), ')')] : null),
    (f.JobID || f.AllocID || f.NodeID || f.TaskState) && h('p', {class: 'dim'},
      f.JobID && ['Job ', link(paths.job(f.JobID, f.Namespace), f.JobID), ' '], f.AllocID && ['Allocation ', link(paths.alloc(f.AllocID), f.AllocID.slice(0, 8)), ' '], f.NodeID && ['Node ', link(paths.node(f.NodeID), f.NodeID.slice(0, 8)), ' '], f.TaskState),
    f.Next && h('p', {}, 'Next: ' + f.Next + (f.NextAt ? ', ' + age(f.NextAt) : '')),
    f.Command && h('p', {}, command(f.Command))));
}
