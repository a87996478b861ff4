// Fields of forms that are part of a page.

import {h} from './dom.js';

// fields makes labelled fields whose values are the properties of s.
export function fields(s, app) {
  const text = {spellcheck: 'false', autocomplete: 'off'};
  return {
    field: (name, label, props = {}, hint) => h('label', {class: 'field'}, h('span', {}, label), h(props.rows ? 'textarea' : 'input', {name, value: s[name], oninput: (e) => { s[name] = e.target.value; }, ...text, ...props}), hint && h('small', {class: 'dim'}, hint)),
    choice: (name, label, options) => h('label', {class: 'field'}, h('span', {}, label), h('select', {name, value: s[name], onchange: (e) => { s[name] = e.target.value; app.render(); }}, options.map(([v, t]) => h('option', {key: v, value: v, selected: v === s[name]}, t)))),
    // check is a choice of yes or no, checks of any of a list; values are kept in s[name].
    check: (name, label) => h('label', {class: 'check'}, h('input', {type: 'checkbox', name, checked: s[name], onchange: (e) => { s[name] = e.target.checked; app.render(); }}), h('span', {}, label)),
    checks: (name, label, options) => h('fieldset', {key: name}, h('legend', {}, label), options.length ? options.map(([v, t]) => h('label', {class: 'check', key: v}, h('input', {type: 'checkbox', value: v, checked: s[name].includes(v), onchange: (e) => { s[name] = e.target.checked ? [...s[name], v] : s[name].filter((x) => x !== v); }}), h('span', {}, t))) : h('span', {class: 'dim'}, 'There are none.')),
  };
}
