// One dynamic host volume: where it is, who may use it and how, and who does.

import {del, seg} from './api.js';
import {act, ask} from './dialog.js';
import {h} from './dom.js';
import {bytes} from './format.js';
import {badge, button, card, crumbs, facts, link, named, nodeLink, problem, time} from './parts.js';
import {tone} from './storage.js';
import {allocTable} from './tables.js';

export default function hostVolume({app, live, rest}) {
  const {id, ns} = named(rest, []);
  const at = '/v1/volume/host/' + seg(id);
  live.load('volume', at, {namespace: ns}, ['HostVolume:' + id, 'HostVolume', 'Node', 'Allocation']);
  const vol = () => live.data('volume');

  async function drop() {
    if (!(await ask({title: 'Delete ' + vol().Name + '?', text: 'The node deletes the directory and its data. A directory that was registered stays.', confirm: 'Delete', danger: true}))) return;
    if (await act('The volume was deleted', () => del(at, {namespace: ns}))) app.go('/ui/storage/host');
  }
  const size = (n) => (n ? bytes(n) : '');
  return {
    title: () => vol()?.Name || id,
    view: () => {
      const v = vol();
      const head = crumbs(link('/ui/storage/host', 'Host volumes'), v?.Name || id);
      if (!v) return [head, h('h1', {}, id), problem(live.error('volume')) || h('p', {class: 'empty'}, 'Loading')];
      return [
        head,
        h('div', {class: 'head'}, h('h1', {}, v.Name), badge(v.State, tone[v.State]), h('div', {class: 'tools'}, button('Delete', drop, {class: 'danger', disabled: v.Allocations?.length > 0}))),
        h('section', {class: 'card', 'aria-label': 'Summary'}, facts([
          ['Id', h('span', {class: 'id'}, v.ID)], ['Namespace', v.Namespace], ['Node', nodeLink(v.NodeID)], ['Node pool', v.NodePool], ['Plugin', v.PluginID], ['Directory', v.HostPath],
          ['Size', v.CapacityBytes ? bytes(v.CapacityBytes) : 'no limit'], ['Smallest size', size(v.RequestedCapacityMinBytes)], ['Largest size', size(v.RequestedCapacityMaxBytes)],
          ['May be used as', (v.RequestedCapabilities || []).map((c) => [c.AccessMode, c.AttachmentMode].filter(Boolean).join(', ')).join('; ')],
          ['Parameters', Object.entries(v.Parameters || {}).map(([k, t]) => k + ' = ' + t).join(', ')], ['Created', time(v.CreateTime)], ['Changed', time(v.ModifyTime)],
        ])),
        card('Allocations', allocTable(v.Allocations || [], {noNode: true})),
      ];
    },
  };
}
