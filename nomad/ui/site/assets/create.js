// Creating a volume.

import {chosen, get, put, seg} from './api.js';
import {act} from './dialog.js';
import {h} from './dom.js';
import {fields} from './form.js';
import {button, card, crumbs, link, paths} from './parts.js';

const modes = ['single-node-writer', 'single-node-reader-only', 'single-node-single-writer', 'single-node-multi-writer', 'multi-node-reader-only', 'multi-node-single-writer', 'multi-node-multi-writer'];

export default function create({app, live}) {
  const s = {id: '', ns: chosen() === '*' ? 'default' : chosen(), plugin: '', min: '1', max: '', modes: ['single-node-writer'], attachment: 'file-system', fs: '', flags: '', parameters: '', topology: '', from: '', source: '', busy: false};
  live.load('plugins', '/v1/plugins', {type: 'csi'}, ['CSIPlugin']);
  get('/v1/plugins', {type: 'csi'}).then((r) => { s.plugin ||= r.data?.[0]?.ID || ''; app.render(); }, () => {});

  const pairs = (text) => Object.fromEntries(text.split('\n').map((l) => l.trim()).filter(Boolean).map((l) => [l.split('=')[0].trim(), l.slice(l.indexOf('=') + 1).trim()]));
  async function run(e) {
    e.preventDefault();
    s.busy = true;
    app.render();
    const GiB = 1 << 30;
    const topology = pairs(s.topology);
    const spec = {
      ID: s.id, Name: s.id, Namespace: s.ns, PluginID: s.plugin, RequestedCapacityMin: Math.round(Number(s.min || 0) * GiB), RequestedCapacityMax: Math.round(Number(s.max || 0) * GiB),
      RequestedCapabilities: s.modes.map((m) => ({AccessMode: m, AttachmentMode: s.attachment})), Parameters: s.parameters.trim() ? pairs(s.parameters) : undefined,
      MountOptions: s.fs || s.flags ? {FSType: s.fs, MountFlags: s.flags.split(',').map((f) => f.trim()).filter(Boolean)} : undefined,
      RequestedTopologies: Object.keys(topology).length ? {Required: [{Segments: topology}]} : undefined,
      SnapshotID: s.from === 'snapshot' ? s.source : undefined, CloneID: s.from === 'clone' ? s.source : undefined,
    };
    const out = await act('The volume ' + s.id + ' was created', () => put('/v1/volume/csi/' + seg(s.id) + '/create', {Volumes: [spec]}, {namespace: s.ns}));
    s.busy = false;
    if (out) app.go(paths.volume(s.id, s.ns));
    else app.render();
  }
  const {field, choice} = fields(s, app);

  return {
    title: () => 'Create a volume',
    view: () => [
      crumbs(link('/ui/storage', 'Storage'), 'Create a volume'),
      h('h1', {}, 'Create a volume'),
      card('Volume', h('form', {class: 'pad', onsubmit: run},
        h('div', {class: 'grid'},
          field('id', 'Id', {required: true}), field('ns', 'Namespace', {required: true}),
          choice('plugin', 'Plugin', (live.data('plugins') || []).map((p) => [p.ID, p.ID + ' (' + p.Provider + ')'])),
          field('min', 'Capacity at least, in GiB', {inputmode: 'decimal'}), field('max', 'Capacity at most, in GiB', {inputmode: 'decimal'}, 'Empty leaves it to the driver.'),
          choice('attachment', 'Attachment', [['file-system', 'File system'], ['block-device', 'Block device']])),
        h('fieldset', {}, h('legend', {}, 'Access modes that jobs may use'), modes.map((m) => h('label', {class: 'check', key: m}, h('input', {type: 'checkbox', checked: s.modes.includes(m), onchange: (e) => { s.modes = e.target.checked ? [...s.modes, m] : s.modes.filter((x) => x !== m); }}), h('span', {}, m)))),
        h('details', {}, h('summary', {}, 'More'), h('div', {class: 'grid'},
          choice('from', 'Content', [['', 'Empty'], ['snapshot', 'Of a snapshot'], ['clone', 'Of another volume']]), s.from && field('source', s.from === 'snapshot' ? 'Id of the snapshot' : 'Id of the volume', {required: true}),
          field('fs', 'File system', {placeholder: 'ext4'}), field('flags', 'Mount flags, separated by commas'),
          field('parameters', 'Parameters of the driver, one "name = value" a line', {rows: 3}), field('topology', 'Required topology, one "segment = value" a line', {rows: 3}))),
        h('div', {class: 'foot'}, button(s.busy ? 'The driver creates it' : 'Create', null, {type: 'submit', class: 'primary', disabled: s.busy})))),
    ],
  };
}
