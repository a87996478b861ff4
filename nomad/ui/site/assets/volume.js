// One volume: who holds it and why, what happens next, and what can be done.

import {del, get, put, seg} from './api.js';
import {act, ask} from './dialog.js';
import {h} from './dom.js';
import {age, bytes, nanos, plural} from './format.js';
import {allocLink, badge, button, card, command, crumbs, facts, link, named, nodeLink, paths, problem, source, table, time} from './parts.js';
import {findings} from './findings.js';
import {segments} from './storage.js';

// What follows each state of a claim.
const nextOf = {
  waiting: 'waits until the previous claim is released', taken: 'the volume is attached to the node', ready: 'held until the allocation ends',
  releasing: 'the node unmounts the volume', unmounted: 'the release is confirmed, then the claim ends',
};
const tone = {waiting: 'warn', taken: 'busy', ready: 'ok', releasing: 'busy', unmounted: 'busy', attached: 'ok', attaching: 'busy', detaching: 'busy', failed: 'bad', ended: 'off', done: 'ok', begun: 'busy'};

export default function volume({app, live, rest}) {
  const {id, ns} = named(rest.replace(/^csi\//, ''), []);
  const at = '/v1/volume/csi/' + seg(id);
  const here = {namespace: ns};
  const topics = ['CSIVolume:' + id, 'VolumeClaim:' + id, 'VolumeClaim', 'VolumeAttachment', 'CSIPlugin'];
  live.load('volume', at, here, topics);
  live.load('doctor', at + '/doctor', here, [...topics, 'Evaluation']);
  live.load('timeline', at + '/timeline', {...here, last: 100}, topics);
  const snapshots = {list: null, error: null, asked: false};
  const vol = () => live.data('volume');

  // Snapshots are listed by the driver, so they are read once and after changes.
  async function readSnapshots() {
    try {
      const out = await get('/v1/volumes/snapshot', {plugin_id: vol().PluginID, namespace: ns});
      snapshots.list = (out.data.Snapshots || []).filter((s) => s.ExternalSourceVolumeID === vol().ExternalID);
      snapshots.error = null;
    } catch (err) {
      snapshots.error = err;
    }
    app.render();
  }

  const changed = async (text, change) => {
    const out = await act(text, change);
    live.refresh();
    return out;
  };
  async function snapshot() {
    const v = await ask({title: 'Snapshot of ' + id, confirm: 'Create', fields: [{name: 'name', label: 'Name of the snapshot', value: id + '-' + new Date().toISOString().slice(0, 16).replace(/[T:]/g, '-'), required: true}]});
    if (v && await changed('The snapshot was created', () => put('/v1/volumes/snapshot', {Snapshots: [{SourceVolumeID: id, PluginID: vol().PluginID, Name: v.name}]}, here))) readSnapshots();
  }
  async function dropSnapshot(s) {
    if (await ask({title: 'Delete the snapshot ' + (s.Name || s.ID) + '?', text: 'It cannot be restored.', confirm: 'Delete', danger: true}) &&
      await changed('The snapshot was deleted', () => del('/v1/volumes/snapshot', {...here, plugin_id: vol().PluginID, snapshot_id: s.ID}))) readSnapshots();
  }
  async function expand() {
    const v = vol();
    const hidden = (v.MountOptions?.MountFlags || []).length > 0;
    const GiB = 1 << 30;
    const out = await ask({title: 'Expand ' + id, confirm: 'Expand', text: 'It has ' + bytes(v.Capacity) + ' now. The driver may round up. A volume cannot become smaller.', fields: [
      {name: 'size', label: 'New capacity in GiB', type: 'text', required: true, value: String(Math.max(1, Math.ceil((v.Capacity / GiB) * 2)))},
      hidden && {name: 'flags', label: 'Mount flags, separated by commas', required: true, hint: 'The server does not show them: write those of the volume file again.'}].filter(Boolean)});
    if (!out) return;
    const size = Math.round(Number(out.size) * GiB);
    const spec = {...pick(v), RequestedCapacityMin: size, RequestedCapacityMax: Math.max(size, v.RequestedCapacityMax || 0)};
    if (hidden) spec.MountOptions = {...v.MountOptions, MountFlags: out.flags.split(',').map((f) => f.trim()).filter(Boolean)};
    if (!(size > v.Capacity)) return act('', () => { throw new Error('The new capacity must be larger than ' + bytes(v.Capacity) + '.'); });
    changed('The volume was expanded', () => put(at + '/create', {Volumes: [spec]}, here));
  }
  async function detach(node, force) {
    const out = await ask({title: (force ? 'Detach by force' : 'Detach') + ' from node ' + node.slice(0, 8) + '?', danger: true, confirm: 'Detach',
      text: force ? 'The claims of this node end although the node has not confirmed that the volume is unmounted. Do this only when the node is shut off: two writers destroy a file system.' : 'Claims whose allocations have ended are released as soon as the node has unmounted the volume. Allocations that run keep it.',
      fields: [{name: 'reason', label: 'Reason, for the timeline'}]});
    if (out) changed('The volume is being detached', () => del(at + '/detach', {...here, node, force: force ? 'true' : '', reason: out.reason}));
  }
  async function remove() {
    const out = await ask({title: 'Delete the volume ' + id + '?', text: 'The driver deletes it with its data. Deregister keeps the data at the provider and only removes the volume from the cluster.', confirm: 'Continue', danger: true,
      fields: [{name: 'how', label: 'What to do', options: [['deregister', 'Deregister: keep the data'], ['delete', 'Delete the data']]}, {name: 'name', label: 'Type the id of the volume', required: true}]});
    if (!out) return;
    if (out.name !== id) return act('', () => { throw new Error('The id does not match: nothing was done.'); });
    if (await act('The volume was removed', () => del(out.how === 'delete' ? at + '/delete' : at, here))) app.go('/ui/storage');
  }
  const repair = () => changed('The repairs were made', () => put(at + '/doctor', {}, here));

  const nodes = (v) => Object.fromEntries((v.Allocations || []).map((a) => [a.NodeID, a.NodeName]));
  function claims(v) {
    const names = nodes(v);
    return table('Claims', ['Phase', 'Allocation', 'Job', 'Node', 'Mode', 'Held', 'Next', ''], (v.Claims || []).map((c) => ({key: c.AllocID + (c.Use || ''), cells: [
      badge(c.State, tone[c.State]), allocLink(c.AllocID), c.JobID ? link(paths.job(c.JobID, c.Namespace), c.JobID) : '', nodeLink(c.NodeID, names[c.NodeID]), [c.Mode, h('div', {class: 'dim'}, c.AccessMode)], time(c.Since),
      [c.State === 'waiting' && c.Predecessor ? ['waits for ', allocLink(c.Predecessor)] : nextOf[c.State], c.NextRetry ? ', next try ' + age(c.NextRetry) : '', c.LastError && h('div', {class: 'dim'}, c.LastError)],
      h('div', {class: 'tools'}, c.NodeID && button('Detach', () => detach(c.NodeID, false), {class: 'small', 'aria-label': 'Detach from node ' + c.NodeID}), c.NodeID && button('By force', () => detach(c.NodeID, true), {class: 'small danger', 'aria-label': 'Detach by force from node ' + c.NodeID}))]})), 'No allocation holds this volume.');
  }
  function attachments(v) {
    const names = nodes(v);
    return table('Attachments', ['Node', 'State', 'Since', 'Attempts', 'Last error', ''], (v.Attachments || []).map((a) => ({key: a.NodeID, cells: [nodeLink(a.NodeID, names[a.NodeID]), badge(a.State, tone[a.State]), time(a.Since), a.Attempts, [a.LastError, a.NextRetry ? ', next try ' + age(a.NextRetry) : ''], h('div', {class: 'tools'}, button('Detach', () => detach(a.NodeID, false), {class: 'small', 'aria-label': 'Detach from node ' + a.NodeID}), button('By force', () => detach(a.NodeID, true), {class: 'small danger', 'aria-label': 'Detach by force from node ' + a.NodeID}))]})),
      v.ControllerRequired ? 'The volume is attached to no node.' : 'The driver mounts on the node without attaching.');
  }
  function timeline(list) {
    if (!list?.length) return h('p', {class: 'empty'}, 'Nothing is recorded.');
    return h('ol', {class: 'timeline'}, [...list].reverse().map((e) => h('li', {key: e.Index + e.What + e.Result + (e.AllocID || ''), class: tone[e.Result] || ''}, time(e.Time), h('div', {},
      h('b', {}, e.What), ' ' + e.Result, e.Count > 1 ? ' (' + e.Count + ' times)' : '', e.JobID && [' by ', link(paths.job(e.JobID, ns), e.JobID)], e.AllocID && [' ', allocLink(e.AllocID)], e.NodeID && [' on ', nodeLink(e.NodeID)], e.Took ? h('span', {class: 'dim'}, ' took ' + nanos(e.Took)) : '', e.Text && h('div', {class: 'dim'}, e.Text)))));
  }

  return {
    title: () => id,
    view: () => {
      const v = vol();
      const head = crumbs(link('/ui/storage', 'Storage'), id);
      if (!v) return [head, h('h1', {}, id), problem(live.error('volume')) || h('p', {class: 'empty'}, 'Loading')];
      if (!snapshots.asked) {
        snapshots.asked = true;
        readSnapshots();
      }
      const waits = (live.data('doctor')?.Findings || []).length;
      return [
        head,
        h('div', {class: 'head'}, h('h1', {}, v.Name || id), badge(v.State), v.Schedulable ? badge('schedulable') : badge('not schedulable', 'bad'), h('div', {class: 'tools'},
          button('Snapshot', snapshot), button('Expand', expand), button('Remove', remove, {class: 'danger', disabled: (v.Claims || []).length > 0, title: (v.Claims || []).length ? 'Claimed volumes cannot be removed' : null}))),
        v.LastError && h('p', {class: 'note'}, v.LastError),
        h('section', {class: 'card', 'aria-label': 'Summary'}, facts([
          ['Id', id], ['Namespace', ns], ['Plugin', link(paths.plugin(v.PluginID), v.PluginID)], ['Driver', [v.Provider, v.ProviderVersion].filter(Boolean).join(' ')], ['Capacity', bytes(v.Capacity)],
          ['Requested', [v.RequestedCapacityMin && 'at least ' + bytes(v.RequestedCapacityMin), v.RequestedCapacityMax && 'at most ' + bytes(v.RequestedCapacityMax)].filter(Boolean).join(', ')],
          ['In use as', v.AccessMode && v.AccessMode + ', ' + v.AttachmentMode], ['Capabilities', (v.RequestedCapabilities || []).map((c) => h('div', {key: c.AccessMode + c.AttachmentMode}, c.AccessMode + ', ' + c.AttachmentMode))],
          ['Topology', segments(v.Topologies) || 'any node'], ['Nodes with the plugin', v.NodesHealthy + ' of ' + v.NodesExpected + ' healthy'], ['Controllers', v.ControllersExpected ? v.ControllersHealthy + ' of ' + v.ControllersExpected + ' healthy' : 'none'],
          ['Id at the driver', h('span', {class: 'id'}, v.ExternalID)], ['From snapshot', v.SnapshotID], ['Cloned from', v.CloneID], ['Created', time(v.CreateTime)], ['File system', v.MountOptions?.FSType],
        ])),
        card('Claims', claims(v)),
        card('Doctor', source(live, 'doctor', (out) => [findings(out.Findings), h('p', {}, command('nomad volume doctor -namespace ' + shell(ns) + ' ' + shell(id)))]), waits > 0 && (live.data('doctor').Findings.some((f) => f.Repair)) && button('Repair', repair, {title: 'Makes the repairs that cannot lose data'})),
        h('div', {class: 'grid'},
          card('Attachments', attachments(v)),
          card('Snapshots', snapshots.error ? problem(snapshots.error) : snapshots.list === null ? h('p', {class: 'empty'}, 'Loading') : table('Snapshots', ['Snapshot', '#Size', 'Ready', 'Created', ''], snapshots.list.map((s) => ({key: s.ID, cells: [
            [s.Name && h('div', {}, s.Name), h('span', {class: 'id'}, s.ID)], bytes(s.SizeBytes), s.IsReady ? badge('ready') : badge('pending'), time(s.CreateTime * 1e9), button('Delete', () => dropSnapshot(s), {class: 'small danger'})]})), 'No snapshots of this volume.'))),
        card('Releases', table('Releases', ['Ended', 'Allocation', 'Node', 'How'], [...(v.Releases || [])].reverse().map((r, i) => ({key: i, cells: [time(r.At), allocLink(r.AllocID), nodeLink(r.NodeID), r.Proof + ' by ' + r.By + (r.Reason ? ': ' + r.Reason : '')]})), 'No claim has ended.')),
        card('Timeline', source(live, 'timeline', timeline), h('span', {class: 'dim'}, plural((live.data('timeline') || []).length, 'event'))),
      ];
    },
  };
}

// pick is the specification of a volume, as it can be sent again.
function pick(v) {
  const keys = ['ID', 'Name', 'Namespace', 'PluginID', 'RequestedTopologies', 'RequestedCapabilities', 'MountOptions', 'Owner', 'OnMountDead', 'OnNodeLoss', 'FenceAfter', 'Lease', 'Fence', 'WriteBack'];
  return Object.fromEntries(keys.filter((k) => v[k] !== undefined && v[k] !== null && v[k] !== '').map((k) => [k, v[k]]));
}

// shell quotes a word of a command.
const shell = (word) => (/^[\w./:@=-]+$/.test(word) ? word : "'" + word.replaceAll("'", "'\\''") + "'");
