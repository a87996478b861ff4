// Who runs where: nodes with their allocations, and how full they are.

import {quote} from './api.js';
import {h} from './dom.js';
import {bytes} from './format.js';
import {card, gauge, link, Pager, paths, problem, source} from './parts.js';
import {nodeStatus} from './nodes.js';

const tone = {running: 'ok', pending: 'busy', failed: 'bad', lost: 'bad', unknown: 'warn'};
const MiB = 1048576;

export default function topology({app, live}) {
  const pager = new Pager(30, load);
  async function load() {
    const token = pager.token;
    await live.load('nodes', '/v1/nodes', {...pager.params(), resources: 'true'}, ['Node']);
    const list = live.data('nodes') || [];
    if (!list.length || token !== pager.token) return;
    live.load('allocs', '/v1/allocations', {namespace: '*', resources: 'true', per_page: 3000, filter: '(ClientStatus == "running" or ClientStatus == "pending") and (' + list.map((n) => 'NodeID == ' + quote(n.ID)).join(' or ') + ')'}, ['Allocation']);
    app.render();
  }
  load();
  function used(list) {
    return list.reduce((r, a) => {
      for (const t of Object.values(a.AllocatedResources?.Tasks || {})) {
        r.cpu += t.Cpu?.CpuShares || 0;
        r.memory += t.Memory?.MemoryMB || 0;
      }
      return r;
    }, {cpu: 0, memory: 0});
  }
  const rack = (n, list) => {
    const u = used(list);
    const res = n.NodeResources || {Cpu: {}, Memory: {}};
    const reserved = n.ReservedResources;
    const cpu = (res.Cpu.CpuShares || 0) - (reserved?.Cpu?.CpuShares || 0);
    const memory = (res.Memory.MemoryMB || 0) - (reserved?.Memory?.MemoryMB || 0);
    return h('div', {class: 'rack', key: n.ID}, h('p', {}, link(paths.node(n.ID), n.Name), ' ', nodeStatus(n)),
      gauge(u.cpu, cpu, u.cpu + ' of ' + cpu + ' MHz'), gauge(u.memory, memory, bytes(u.memory * MiB) + ' of ' + bytes(memory * MiB)),
      h('p', {class: 'dim'}, list.length + ' allocations'),
      h('div', {class: 'units'}, list.slice(0, 300).map((a) => h('a', {key: a.ID, href: paths.alloc(a.ID), class: tone[a.ClientStatus] || '', title: a.Name + ' ' + a.ClientStatus, 'aria-label': a.Name + ' ' + a.ClientStatus}))));
  };
  return {
    title: () => 'Topology',
    view: () => [h('h1', {}, 'Topology'), problem(live.error('allocs')), source(live, 'nodes', (nodes) => {
      const by = {};
      for (const a of live.data('allocs') || []) (by[a.NodeID] ||= []).push(a);
      const groups = {};
      for (const n of nodes) (groups[n.Datacenter + ', pool ' + n.NodePool] ||= []).push(n);
      return [Object.entries(groups).sort().map(([k, list]) => card(k, h('div', {class: 'racks'}, list.map((n) => rack(n, by[n.ID] || []))))), !nodes.length && h('p', {class: 'empty'}, 'No node has registered.'), live.next('allocs') && h('p', {class: 'dim'}, 'Only the first 3,000 allocations are counted.'), pager.view(live.next('nodes'))];
    })],
  };
}
