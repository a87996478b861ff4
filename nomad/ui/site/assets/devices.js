// The devices of a node or an allocation: health, users, and what they report.

import {h} from './dom.js';
import {stat} from './format.js';
import {allocLink, badge, card, facts, table} from './parts.js';

export const deviceName = (g) => [g.Vendor, g.Type, g.Name].join('/');

// flat lists the statistics of a tree by their path.
const flat = (o, at = '') => [...Object.entries(o?.Attributes || {}).sort().map(([k, v]) => [at + k, stat(v)]), ...Object.entries(o?.Nested || {}).sort().flatMap(([k, v]) => flat(v, at + k + '.'))];

// report is what one device reports: a summary that opens to all values.
function report(groups, name, id) {
  const s = (groups || []).find((g) => deviceName(g) === name)?.InstanceStats?.[id];
  if (!s) return '';
  const summary = stat(s.Summary) + (s.Summary?.Desc ? ' ' + s.Summary.Desc : '');
  const all = flat(s.Stats);
  return all.length ? h('details', {}, h('summary', {}, summary || 'values'), facts(all)) : summary;
}

// nodeDevices is the card of the devices of a node; nothing for a node without any. The allocations tell who uses them.
export function nodeDevices(node, allocs, stats) {
  const groups = node.NodeResources?.Devices || [];
  if (!groups.length) return null;
  const users = {};
  for (const a of allocs || []) {
    if (['complete', 'failed', 'lost'].includes(a.ClientStatus)) continue;
    for (const t of Object.values(a.AllocatedResources?.Tasks || {})) for (const d of t.Devices || []) for (const id of d.DeviceIDs || []) users[deviceName(d) + ' ' + id] = a.ID;
  }
  const attributes = (g) => Object.entries(g.Attributes || {}).sort().map(([k, v]) => k + ' ' + stat(v)).join(', ');
  return card('Devices', table('Devices', ['Device', 'Id', 'Health', 'Problem', 'Allocation', 'Reports', 'Attributes'], groups.flatMap((g) => (g.Instances || []).map((i) => ({key: deviceName(g) + i.ID, cells: [
    deviceName(g), i.ID, badge(i.Healthy ? 'healthy' : 'unhealthy'), i.HealthDescription, allocLink(users[deviceName(g) + ' ' + i.ID]), report(stats, deviceName(g), i.ID), attributes(g)]})))));
}

// allocDevices is the card of the devices that the tasks of an allocation have.
export function allocDevices(alloc, stats) {
  const rows = Object.entries(alloc.AllocatedResources?.Tasks || {}).sort().flatMap(([task, t]) => (t.Devices || []).flatMap((d) => (d.DeviceIDs || []).map((id) => ({key: task + deviceName(d) + id, cells: [deviceName(d), id, task, report(stats, deviceName(d), id)]}))));
  return rows.length ? card('Devices', table('Devices', ['Device', 'Id', 'Task', 'Reports'], rows)) : null;
}
