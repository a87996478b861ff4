// Creating and changing a variable. A change of another user in the meantime is shown, and overwritten only on request.

import {chosen, get, put} from './api.js';
import {act} from './dialog.js';
import {h} from './dom.js';
import {fields} from './form.js';
import {button, card, crumbs, link, named, paths, problem, time} from './parts.js';
import {variableURL} from './variable.js';

export default function variableForm({app, path: address, rest, query}) {
  const fresh = address.startsWith('/ui/variables/new');
  const {id, ns} = fresh ? {id: query.get('path') || '', ns: chosen() === '*' ? 'default' : chosen()} : named(rest, []);
  const s = {path: id, ns, items: [], index: 0, loaded: fresh, error: null, conflict: null, busy: false};
  const {field} = fields(s, app);
  let key = 0;
  const row = (name = '', value = '') => ({key: ++key, name, value});
  const fill = (v) => Object.assign(s, {items: Object.entries(v.Items || {}).sort().map(([k, x]) => row(k, x)), index: v.ModifyIndex, loaded: true, conflict: null});
  const read = async () => (await get(variableURL(s.path), {namespace: s.ns})).data;

  if (fresh) s.items.push(row());
  else read().then(fill, (err) => { s.error = err; }).finally(app.render);

  async function save(e) {
    e.preventDefault();
    const names = s.items.map((i) => i.name.trim());
    const twice = names.find((n, i) => n && names.indexOf(n) !== i);
    const out = await act('The variable was saved', async () => {
      if (twice) throw new Error('The item ' + twice + ' is there twice: nothing was saved.');
      const items = Object.fromEntries(s.items.map((i, n) => [names[n], i.value]).filter(([k]) => k));
      if (!Object.keys(items).length) throw new Error('A variable needs an item: nothing was saved. Delete the variable if it has none.');
      Object.assign(s, {busy: true, conflict: null});
      app.render();
      try {
        return await put(variableURL(s.path.trim()), {Namespace: s.ns, Path: s.path.trim(), Items: items}, {namespace: s.ns, cas: s.index});
      } catch (err) {
        if (err.status !== 409) throw err;
        s.conflict = await read().catch((again) => (again.status === 404 ? {ModifyIndex: 0, gone: true} : {ModifyIndex: JSON.parse(err.message)?.ModifyIndex ?? 0, hidden: true}));
        throw new Error(s.index ? 'The variable was changed by another user: nothing was saved.' : 'There is a variable at this path: nothing was saved.');
      }
    });
    s.busy = false;
    if (out) app.go(paths.variable(s.path.trim(), s.ns));
    else app.render();
  }

  function conflict(c) {
    const mine = Object.fromEntries(s.items.map((i) => [i.name.trim(), i.value]));
    const theirs = c.Items || {};
    const differ = [...new Set([...Object.keys(mine), ...Object.keys(theirs)])].filter((k) => k && mine[k] !== theirs[k]).sort();
    return h('div', {class: 'note', role: 'alert'},
      h('p', {}, c.gone ? 'The variable was deleted by another user.' : ['The stored variable has index ' + c.ModifyIndex + ', your change is based on ' + (s.index ? 'index ' + s.index : 'none') + '. ', c.ModifyTime && ['It was changed ', time(c.ModifyTime), '. '], c.hidden ? 'You may not read it.' : differ.length ? 'Items that differ: ' + differ.join(', ') + '.' : 'Its items are those below.']),
      h('div', {class: 'tools'}, !c.gone && !c.hidden && button('Take the stored items', () => { fill(c); app.render(); }),
        button('Keep mine and overwrite on save', () => { Object.assign(s, {index: c.ModifyIndex, conflict: null}); app.render(); }, {class: 'danger'})));
  }

  const item = (i) => [
    h('input', {key: 'n' + i.key, 'aria-label': 'Name of the item', placeholder: 'name', value: i.name, spellcheck: 'false', autocomplete: 'off', oninput: (e) => { i.name = e.target.value; }}),
    h('textarea', {key: 'v' + i.key, 'aria-label': 'Value of the item ' + (i.name || 'without a name'), rows: 1, placeholder: 'value', value: i.value, spellcheck: 'false', autocomplete: 'off', oninput: (e) => { i.value = e.target.value; }}),
    button('Remove', () => { s.items = s.items.filter((x) => x !== i); app.render(); }, {key: 'r' + i.key, class: 'small', 'aria-label': 'Remove the item ' + (i.name || 'without a name')}),
  ];
  const title = fresh ? 'Create a variable' : 'Edit ' + id;
  return {
    title: () => title,
    view: () => [
      crumbs(link('/ui/variables', 'Variables'), !fresh && link(paths.variable(id, ns), id), fresh ? 'Create' : 'Edit'),
      h('h1', {}, title),
      problem(s.error),
      s.conflict && conflict(s.conflict),
      s.loaded && card('Variable', h('form', {class: 'pad', onsubmit: save},
        fresh && h('div', {class: 'grid'}, field('path', 'Path', {required: true}, 'nomad/jobs/<job> is readable by the tasks of that job.'), field('ns', 'Namespace', {required: true})),
        h('div', {class: 'items'}, s.items.flatMap(item)),
        h('div', {class: 'foot'}, button('Add an item', () => { s.items.push(row()); app.render(); }), button('Save', null, {type: 'submit', class: 'primary', disabled: s.busy})))),
    ],
  };
}
