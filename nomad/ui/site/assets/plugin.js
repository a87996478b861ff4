// One CSI plugin: its instances, what they can do, and what they reply.

import {get, quote, seg} from './api.js';
import {h} from './dom.js';
import {nanos} from './format.js';
import {allocLink, badge, button, card, command, crumbs, decode, facts, link, nodeLink, paths, problem, table, time} from './parts.js';
import {findings} from './findings.js';

export default function plugin({app, live, rest}) {
  const id = decode(rest.replace(/^csi\//, ''));
  live.load('plugin', '/v1/plugin/csi/' + seg(id), {}, ['CSIPlugin:' + id, 'CSIPlugin']);
  live.load('volumes', '/v1/volumes', {type: 'csi', namespace: '*', filter: 'PluginID == ' + quote(id), per_page: 50}, ['CSIVolume', 'VolumeClaim']);
  const doctor = {out: null, error: null, busy: false};
  async function examine() {
    Object.assign(doctor, {busy: true, error: null});
    app.render();
    try {
      doctor.out = (await get('/v1/plugin/csi/' + seg(id) + '/doctor')).data;
    } catch (err) {
      doctor.error = err;
    }
    doctor.busy = false;
    app.render();
  }
  examine();

  const supports = (info) => Object.entries(info || {}).filter(([k, on]) => on === true && /^(Supports|Requires|Offline)/.test(k)).map(([k]) => k.replace(/^Supports/, '').replace(/([a-z])([A-Z])/g, (_, a, b) => a + ' ' + b.toLowerCase()).toLowerCase());
  const abilities = (list, key) => [...new Set(Object.values(list || {}).flatMap((x) => supports(x[key])))].sort();
  function instances(p) {
    const all = {};
    for (const [kind, list] of [['controller', p.Controllers], ['node', p.Nodes]]) for (const [node, x] of Object.entries(list || {})) (all[node] ||= []).push([kind, x]);
    const names = Object.fromEntries((p.Allocations || []).map((a) => [a.NodeID, a.NodeName]));
    const asked = Object.fromEntries(((Array.isArray(doctor.out?.Plugins) ? doctor.out.Plugins : doctor.out?.Reports) || []).flatMap((r) => r.Instances || []).map((i) => [i.NodeID, i]));
    return table('Instances', ['Node', 'Kinds', 'Health', 'Allocation', 'Topology', 'Volumes per node', 'Reply', 'Reported'], Object.entries(all).map(([node, list]) => {
      const n = list.find(([, x]) => x.NodeInfo)?.[1].NodeInfo;
      const sick = list.find(([, x]) => !x.Healthy);
      const a = asked[node];
      return {key: node, cells: [nodeLink(node, names[node]), list.map(([k]) => k).join(', '), [badge(sick ? 'unhealthy' : 'healthy'), sick && h('div', {class: 'dim'}, sick[1].HealthDescription)], allocLink(list[0][1].AllocID),
        Object.entries(n?.AccessibleTopology?.Segments || {}).map(([k, v]) => k + '=' + v).join(' '), n ? (n.MaxVolumes > 1e15 ? 'no limit' : n.MaxVolumes) : '',
        a?.Asked ? [badge(a.Ready ? 'ready' : 'error'), ' ', h('span', {class: 'dim'}, nanos(a.Took)), a.Error && h('div', {class: 'dim'}, a.Error)] : '', time(list[0][1].UpdateTime)]};
    }), 'No node runs an instance of this plugin.');
  }

  return {
    title: () => id,
    view: () => {
      const p = live.data('plugin');
      const head = crumbs(link('/ui/storage/plugins', 'Plugins'), id);
      if (!p) return [head, h('h1', {}, id), problem(live.error('plugin')) || h('p', {class: 'empty'}, 'Loading')];
      const c = Object.values(p.Controllers || {});
      const n = Object.values(p.Nodes || {});
      const healthy = (list) => list.filter((x) => x.Healthy).length + ' of ' + list.length + ' healthy';
      return [
        head,
        h('div', {class: 'head'}, h('h1', {}, id), badge([...c, ...n].every((x) => x.Healthy) ? 'healthy' : 'unhealthy')),
        h('section', {class: 'card', 'aria-label': 'Summary'}, facts([['Driver', p.Provider], ['Version', p.Version], ['Controllers', c.length ? healthy(c) : 'none'], ['Nodes', healthy(n)],
          ['Controller can', abilities(p.Controllers, 'ControllerInfo').join(', ')], ['Node can', abilities(p.Nodes, 'NodeInfo').join(', ')]])),
        card('Instances', instances(p)),
        card('Doctor', [doctor.error ? problem(doctor.error) : doctor.out ? findings(doctor.out.Findings, true) : h('p', {class: 'empty'}, 'The instances are asked'), h('p', {}, command('nomad plugin doctor ' + id))], button('Ask again', examine, {disabled: doctor.busy})),
        card('Volumes', table('Volumes', ['Volume', 'Namespace', 'State', '#Writers', '#Readers'], (live.data('volumes') || []).map((v) => ({key: v.Namespace + ' ' + v.ID, cells: [link(paths.volume(v.ID, v.Namespace), v.ID), v.Namespace, v.Schedulable ? badge('schedulable') : badge('not schedulable', 'bad'), v.CurrentWriters, v.CurrentReaders]})), 'No volumes of this plugin.'),
          live.next('volumes') && h('span', {class: 'dim'}, 'the first 50')),
      ];
    },
  };
}
