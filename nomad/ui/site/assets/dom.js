// A small virtual DOM: pages describe what they show, patch changes the elements that differ. Texts become text nodes, so
// names with markup are shown as they are.

const svgTags = new Set(['svg', 'path', 'rect', 'polyline', 'line', 'circle', 'g']);

// h describes an element. Children are descriptions, texts, numbers, lists of these; null and false are left out.
export function h(tag, props, ...kids) {
  return {tag, props: props || {}, key: props?.key, kids: flat(kids, [])};
}

function flat(kids, out) {
  for (const k of kids) {
    if (Array.isArray(k)) flat(k, out);
    else if (k === null || k === undefined || k === false || k === true) continue;
    else if (typeof k === 'object') out.push(k);
    else out.push({text: String(k)});
  }
  return out;
}

const asProperty = new Set(['value', 'checked', 'disabled', 'selected', 'open', 'indeterminate']);

function setProp(el, name, value, old) {
  if (name === 'key' || name === 'ref' || name === 'opaque') return;
  if (name.startsWith('on')) el[name] = value || null;
  else if (name === 'style') {
    for (const k in old || {}) if (!value || !(k in value)) el.style.removeProperty(k);
    for (const k in value || {}) el.style.setProperty(k, value[k]);
  } else if (asProperty.has(name)) {
    if (el[name] !== (value ?? '')) el[name] = value ?? '';
  } else if (value === null || value === undefined || value === false) el.removeAttribute(name);
  else el.setAttribute(name, value === true ? '' : value);
}

function create(v) {
  if (v.tag === undefined) return document.createTextNode(v.text);
  const el = svgTags.has(v.tag) ? document.createElementNS('http://www.w3.org/2000/svg', v.tag) : document.createElement(v.tag);
  for (const k in v.props) if (k !== 'value') setProp(el, k, v.props[k]);
  if (!v.props.opaque) patch(el, v.kids);
  if ('value' in v.props) setProp(el, 'value', v.props.value); // after the options of a select
  v.props.ref?.(el);
  return el;
}

function update(el, was, v) {
  if (v.tag === undefined) {
    if (was.text !== v.text) el.data = v.text;
    return;
  }
  for (const k in was.props) if (!(k in v.props)) setProp(el, k, null, was.props[k]);
  for (const k in v.props) {
    if (k === 'value' && el === document.activeElement) continue; // the user is typing
    if (v.props[k] !== was.props[k] || asProperty.has(k)) setProp(el, k, v.props[k], was.props[k]);
  }
  if (!v.props.opaque) patch(el, v.kids);
}

const same = (a, b) => a.tag === b.tag && a.key === b.key;

// patch makes the children of an element those that are described. Elements with the same key are kept and moved.
export function patch(el, next) {
  const was = el.shown || [];
  const keyed = new Map();
  for (const w of was) if (w.key !== undefined) keyed.set(w.key, w);
  const free = was.filter((w) => w.key === undefined);
  let at = 0;
  const kept = new Set();
  for (const v of next) {
    let w = v.key !== undefined ? keyed.get(v.key) : free[at];
    if (v.key === undefined && w) at++;
    if (w && same(w, v) && !kept.has(w)) {
      v.el = w.el;
      kept.add(w);
      update(v.el, w, v);
    } else v.el = create(v);
  }
  for (const w of was) if (!kept.has(w)) w.el.remove();
  let before = el.firstChild;
  for (const v of next) {
    if (v.el === before) before = before.nextSibling;
    else el.insertBefore(v.el, before);
  }
  el.shown = next;
}
