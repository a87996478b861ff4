// The list of variables; values are read on the page of one.

import {chosen} from './api.js';
import {h} from './dom.js';
import {link, Pager, paths, source, table, time} from './parts.js';

export default function variables({app, live}) {
  const s = {prefix: ''};
  const pager = new Pager(50, load);
  let timer = 0;
  function load() {
    live.load('vars', '/v1/vars', {namespace: chosen(), prefix: s.prefix, ...pager.params()}, ['Variable']);
    app.render();
  }
  load();
  return {
    title: () => 'Variables',
    view: () => [
      h('div', {class: 'head'}, h('h1', {}, 'Variables'), h('div', {class: 'tools'}, link('/ui/variables/new', h('span', {class: 'as-button primary'}, 'Create a variable')))),
      h('div', {class: 'filters', role: 'search'}, h('input', {type: 'search', placeholder: 'Path begins with', 'aria-label': 'Path begins with', value: s.prefix, oninput: (e) => { s.prefix = e.target.value.trim(); clearTimeout(timer); timer = setTimeout(() => { pager.reset(); load(); }, 200); }})),
      source(live, 'vars', (list) => [table('Variables', ['Path', 'Namespace', 'Created', 'Changed'], list.map((v) => ({key: v.Namespace + ' ' + v.Path, cells: [link(paths.variable(v.Path, v.Namespace), v.Path), v.Namespace, time(v.CreateTime), time(v.ModifyTime)]})), 'There are no variables that you may list.'), pager.view(live.next('vars'))]),
    ],
    close: () => clearTimeout(timer),
  };
}
