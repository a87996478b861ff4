// Files of an allocation.

import {get, request, seg} from './api.js';
import {h} from './dom.js';
import {bytes} from './format.js';
import {button, card, link, paths, problem, table, time} from './parts.js';

const most = 256 << 10; // bytes of a file that are shown

export function files({app, id, query}) {
  const path = query.get('path') || '/';
  const s = {list: null, text: null, size: 0, error: null};
  const to = (p) => paths.alloc(id, 'files') + '?path=' + seg(p);
  const join = (name) => (path === '/' ? '' : path.replace(/\/$/, '')) + '/' + name;

  async function load() {
    try {
      const stat = (await get('/v1/client/fs/stat/' + seg(id), {path})).data;
      if (stat.IsDir) {
        s.list = (await get('/v1/client/fs/ls/' + seg(id), {path})).data || [];
        s.list.sort((a, b) => b.IsDir - a.IsDir || (a.Name < b.Name ? -1 : 1));
      } else {
        s.size = stat.Size;
        s.text = await (await request('GET', '/v1/client/fs/readat/' + seg(id), {params: {path, offset: 0, limit: most}, raw: true})).text();
      }
    } catch (err) {
      s.error = err;
    }
    app.render();
  }
  // download reads the file with the token, which a link could not send.
  async function download() {
    const res = await request('GET', '/v1/client/fs/cat/' + seg(id), {params: {path}, raw: true});
    const a = document.createElement('a');
    a.href = URL.createObjectURL(await res.blob());
    a.download = path.split('/').pop();
    a.click();
    setTimeout(() => URL.revokeObjectURL(a.href), 10000);
  }
  load();

  return {
    view: () => {
      const names = path.split('/').filter(Boolean);
      const where = h('span', {}, link(to('/'), 'root'), names.map((n, i) => [' / ', link(to('/' + names.slice(0, i + 1).join('/')), n)]));
      const shown = s.error ? problem(s.error)
        : s.list ? table('Files', ['Name', '#Size', 'Mode', 'Changed'], s.list.slice(0, 2000).map((f) => ({key: f.Name, cells: [link(to(join(f.Name)), f.Name + (f.IsDir ? '/' : '')), f.IsDir ? '' : bytes(f.Size), h('span', {class: 'id'}, f.FileMode), time(f.ModTime)]})), 'This folder is empty.')
        : s.text !== null ? [s.size > most && h('p', {class: 'dim'}, 'The first ' + bytes(most) + ' of ' + bytes(s.size) + '.'), h('pre', {class: 'source', tabindex: 0}, s.text)]
        : h('p', {class: 'empty'}, 'Loading');
      return card('Files', [h('p', {}, where), shown], s.text !== null && button('Download', download));
    },
  };
}
