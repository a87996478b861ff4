// Volumes and plugins.

import {chosen, quote} from './api.js';
import {h} from './dom.js';
import {bytes} from './format.js';
import {badge, card, link, nodeLink, Pager, paths, source, table, tabs, time} from './parts.js';
import {findings} from './findings.js';

export default function storage({app, live, rest, query}) {
  const tab = rest === 'plugins' ? 'plugins' : rest === 'doctor' ? 'doctor' : rest === 'host' ? 'host' : 'volumes';
  const s = {text: query.get('q') || ''};
  const pager = new Pager(50, load);
  let timer = 0;
  function load() {
    if (tab === 'volumes') live.load('volumes', '/v1/volumes', {type: 'csi', namespace: chosen(), ...pager.params(), filter: s.text ? 'ID contains ' + quote(s.text) + ' or Name contains ' + quote(s.text) + ' or PluginID contains ' + quote(s.text) : ''}, ['CSIVolume', 'VolumeClaim', 'CSIPlugin']);
    if (tab === 'host') live.load('host', '/v1/volumes', {type: 'host', namespace: chosen(), ...pager.params()}, ['HostVolume', 'Node']);
    if (tab === 'plugins') live.load('plugins', '/v1/plugins', {type: 'csi', ...pager.params()}, ['CSIPlugin', 'Node']);
    if (tab === 'doctor') live.load('doctor', '/v1/volumes/doctor', {namespace: chosen()}, ['VolumeClaim', 'CSIVolume', 'VolumeAttachment', 'CSIPlugin', 'Evaluation']);
    app.render();
  }
  load();

  const use = (v) => [v.CurrentWriters ? v.CurrentWriters + ' writing' : '', v.CurrentReaders ? v.CurrentReaders + ' reading' : ''].filter(Boolean).join(', ');
  const views = {
    volumes: () => [
      h('div', {class: 'filters', role: 'search'}, h('input', {type: 'search', placeholder: 'Volume or plugin contains', 'aria-label': 'Volume or plugin contains', value: s.text, oninput: (e) => { s.text = e.target.value.trim(); clearTimeout(timer); timer = setTimeout(() => { pager.reset(); load(); }, 200); }})),
      source(live, 'volumes', (list) => [table('Volumes', ['Volume', 'Namespace', 'Plugin', 'State', 'In use', 'Access mode', 'Topology', 'Created'], list.map((v) => ({key: v.Namespace + ' ' + v.ID, cells: [
        link(paths.volume(v.ID, v.Namespace), v.ID), v.Namespace, v.PluginID ? link(paths.plugin(v.PluginID), v.PluginID) : '', v.Schedulable ? badge('schedulable') : badge('not schedulable', 'bad'), use(v) || h('span', {class: 'dim'}, 'no'), v.AccessMode,
        segments(v.Topologies), time(v.CreateTime)]})), s.text ? 'No volume matches.' : 'There are no volumes ' + (chosen() === '*' ? 'in any namespace.' : 'in this namespace.')), pager.view(live.next('volumes'))]),
    ],
    host: () => source(live, 'host', (list) => [table('Host volumes', ['Volume', 'Namespace', 'Node', 'Pool', 'Plugin', 'State', '#Size', 'Created'], list.map((v) => ({key: v.Namespace + ' ' + v.ID, cells: [
      link(paths.hostVolume(v.ID, v.Namespace), v.Name), v.Namespace, nodeLink(v.NodeID), v.NodePool, v.PluginID, badge(v.State, tone[v.State]), v.CapacityBytes ? bytes(v.CapacityBytes) : h('span', {class: 'dim'}, 'no limit'), time(v.CreateTime)]})), 'There are no dynamic host volumes ' + (chosen() === '*' ? 'in any namespace.' : 'in this namespace.')), pager.view(live.next('host'))]),
    plugins: () => source(live, 'plugins', (list) => [table('Plugins', ['Plugin', 'Driver', 'Controllers', 'Nodes', 'Health'], list.map((p) => ({key: p.ID, cells: [
      link(paths.plugin(p.ID), p.ID), p.Provider, p.ControllersExpected ? p.ControllersHealthy + ' of ' + p.ControllersExpected : h('span', {class: 'dim'}, 'none'), p.NodesHealthy + ' of ' + p.NodesExpected,
      p.NodesHealthy < p.NodesExpected || p.ControllersHealthy < p.ControllersExpected ? badge('degraded', 'bad') : badge('healthy')]})), 'No plugin is known. A CSI plugin is a job with a csi_plugin block.'), pager.view(live.next('plugins'))]),
    doctor: () => source(live, 'doctor', (out) => card('Findings', [h('p', {class: 'dim'}, out.Volumes + ' volumes were examined.'), findings(out.Findings, true), out.Omitted ? h('p', {class: 'dim'}, out.Omitted + ' more findings are left out.') : null])),
  };
  return {
    title: () => 'Storage',
    view: () => [
      h('div', {class: 'head'}, h('h1', {}, 'Storage'), h('div', {class: 'tools'}, link('/ui/storage/volumes/create', h('span', {class: 'as-button primary'}, 'Create a volume')))),
      tabs([['volumes', 'Volumes'], ['host', 'Host volumes'], ['plugins', 'Plugins'], ['doctor', 'Doctor']], tab, (t) => '/ui/storage/' + t),
      views[tab](),
    ],
    close: () => clearTimeout(timer),
  };
}

// tone is how the states of host volumes look.
export const tone = {ready: 'ok', pending: 'busy', unavailable: 'bad'};

export const segments = (list) => (list || []).map((t) => Object.entries(t.Segments || {}).map(([k, v]) => k + '=' + v).join(' ')).join('; ');
