// One node: state, drain, drivers, plugins, volumes, allocations.

import {put, quote, seg} from './api.js';
import {nodeDevices} from './devices.js';
import {act, ask} from './dialog.js';
import {h} from './dom.js';
import {bytes, parseSpan} from './format.js';
import {badge, button, card, crumbs, decode, facts, link, Pager, paths, problem, source, table, time} from './parts.js';
import {allocTable} from './tables.js';
import {nodeStatus} from './nodes.js';
import {Usage} from './usage.js';

export default function node({app, live, rest}) {
  const id = decode(rest);
  const at = '/v1/node/' + seg(id);
  const pager = new Pager(25, loadAllocs);
  function loadAllocs() {
    live.load('allocs', '/v1/allocations', {namespace: '*', filter: 'NodeID == ' + quote(id), reverse: 'true', ...pager.params()}, ['Allocation:' + id, 'Allocation']);
    app.render();
  }
  live.load('node', at, {}, ['Node:' + id]);
  live.load('volumes', '/v1/volumes', {type: 'csi', namespace: '*', node_id: id}, ['VolumeClaim', 'CSIVolume']);
  loadAllocs();
  const usage = new Usage('/v1/client/stats', app, (d) => ({cpu: (d.CPU || []).reduce((n, c) => n + c.TotalPercent, 0) / Math.max(1, (d.CPU || []).length), memory: d.Memory?.Used || 0, total: d.Memory?.Total || 0, disk: d.AllocDirStats, devices: d.DeviceStats}), {node_id: id});
  usage.start();
  const n = () => live.data('node');
  let asked = false; // for the users of devices

  async function drain() {
    const v = await ask({title: 'Drain the node', text: 'Its allocations move to other nodes, and it gets no new ones.', confirm: 'Drain', danger: true, fields: [
      {name: 'deadline', label: 'Deadline, after which what is left is stopped', value: '1h', required: true, hint: 'For example 90s, 30m or 1h. "none" waits without a deadline, "now" stops everything at once.'}, {name: 'system', label: 'Leave system jobs running', type: 'checkbox'}]});
    if (!v) return;
    act('The node drains', () => {
      const deadline = {none: 0, now: -1}[v.deadline.trim()] ?? parseSpan(v.deadline);
      if (!Number.isFinite(deadline)) throw new Error('The deadline "' + v.deadline + '" is not a duration such as 30m: the node does not drain.');
      return put(at + '/drain', {NodeID: id, DrainSpec: {Deadline: deadline, IgnoreSystemJobs: v.system}});
    });
  }
  const undrain = () => act('The drain ended', () => put(at + '/drain', {NodeID: id, DrainSpec: null, MarkEligible: true}));
  const eligible = (on) => act(on ? 'The node gets new allocations' : 'The node gets no new allocations', () => put(at + '/eligibility', {NodeID: id, Eligibility: on ? 'eligible' : 'ineligible'}));

  const drivers = (x) => Object.entries(x.Drivers || {}).sort().map(([k, d]) => ({key: k, cells: [k, d.Detected ? badge(d.Healthy ? 'healthy' : 'unhealthy') : h('span', {class: 'dim'}, 'not found'), d.HealthDescription, time(d.UpdateTime)]}));
  const plugins = (x) => {
    const all = {};
    for (const [kind, list] of [['controller', x.CSIControllerPlugins], ['node', x.CSINodePlugins]]) for (const [k, p] of Object.entries(list || {})) (all[k] ||= []).push([kind, p]);
    return Object.entries(all).map(([k, list]) => ({key: k, cells: [link(paths.plugin(k), k), list.map(([kind]) => kind).join(', '), badge(list.every(([, p]) => p.Healthy) ? 'healthy' : 'unhealthy'), list.map(([, p]) => p.HealthDescription).filter((t) => t && t !== 'healthy').join('; '), list[0][1].Provider]}));
  };
  return {
    title: () => n()?.Name || id,
    view: () => {
      const x = n();
      const head = crumbs(link('/ui/clients', 'Nodes'), x?.Name || id);
      if (!x) return [head, h('h1', {}, id), problem(live.error('node')) || h('p', {class: 'empty'}, 'Loading')];
      const disk = usage.rows.at(-1)?.disk;
      if (x.NodeResources?.Devices?.length && !asked) {
        asked = true;
        live.load('deviceUsers', '/v1/allocations', {namespace: '*', filter: 'NodeID == ' + quote(id) + ' and DesiredStatus == "run"', resources: 'true'}, ['Allocation:' + id, 'Allocation']);
      }
      const d = x.DrainStrategy;
      return [
        head,
        h('div', {class: 'head'}, h('h1', {}, x.Name), nodeStatus(x), h('div', {class: 'tools'},
          d ? button('Stop the drain', undrain) : button('Drain', drain, {class: 'danger'}), x.SchedulingEligibility === 'eligible' ? button('Make ineligible', () => eligible(false)) : !d && button('Make eligible', () => eligible(true), {class: 'primary'}))),
        d && h('p', {class: 'note'}, 'The node drains', d.ForceDeadline && !d.ForceDeadline.startsWith('0001') ? [', at the latest ', time(d.ForceDeadline)] : ' without a deadline', '. Allocations with volumes move when the volume is released.'),
        h('section', {class: 'card', 'aria-label': 'Summary'}, facts([
          ['Id', h('span', {class: 'id'}, id)], ['Address', x.HTTPAddr], ['Datacenter', x.Datacenter], ['Pool', x.NodePool], ['Class', x.NodeClass], ['State', x.StatusDescription], ['Version', x.Attributes?.['nomad.version']], ['System', [x.Attributes?.['os.name'], x.Attributes?.['kernel.version'], x.Attributes?.['cpu.arch']].filter(Boolean).join(', ')],
          ['Processor', x.NodeResources && x.NodeResources.Cpu.CpuShares + ' MHz, ' + x.NodeResources.Cpu.TotalCpuCores + ' cores'], ['Memory', x.NodeResources && bytes(x.NodeResources.Memory.MemoryMB * 1048576)], ['Disk', disk && bytes(disk.Used) + ' of ' + bytes(disk.Size) + ' used'], ['State changed', x.StatusUpdatedAt && time(x.StatusUpdatedAt * 1e9)],
        ])),
        card('Use', usage.view({memory: usage.rows.at(-1)?.total || 0}, x.Status === 'ready')),
        card('Allocations', source(live, 'allocs', (list) => [allocTable(list, {noNode: true}), pager.view(live.next('allocs'))])),
        card('Volumes', source(live, 'volumes', (list) => table('Volumes', ['Volume', 'Namespace', 'Plugin', '#Writers', '#Readers'], list.map((v) => ({key: v.Namespace + v.ID, cells: [link(paths.volume(v.ID, v.Namespace), v.ID), v.Namespace, v.PluginID, v.CurrentWriters, v.CurrentReaders]})), 'No volume is in use on this node.'))),
        nodeDevices(x, live.data('deviceUsers'), usage.rows.at(-1)?.devices),
        card('CSI plugins', table('CSI plugins', ['Plugin', 'Kinds', 'Health', 'Problem', 'Driver'], plugins(x), 'No CSI plugin runs on this node.')),
        card('Drivers', table('Drivers', ['Driver', 'Health', 'State', 'Checked'], drivers(x))),
        card('Events', h('ol', {class: 'timeline'}, [...(x.Events || [])].reverse().map((e, i) => h('li', {key: i}, time(e.Timestamp), h('div', {}, h('b', {}, e.Subsystem), ' ' + e.Message))))),
        h('details', {class: 'card pad'}, h('summary', {}, 'Attributes and metadata'), facts([...Object.entries(x.Meta || {}).map(([k, v]) => ['meta.' + k, v]), ...Object.entries(x.Attributes || {}).sort()])),
      ];
    },
    close: () => usage.stop(),
  };
}
