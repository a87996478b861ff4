// Dialogs and messages.

// ask shows a dialog with fields and resolves to their values, or to null when the user cancels. Fields are
// {name, label, type, value, hint, options, required}.
export function ask({title, text, fields = [], confirm = 'OK', danger = false}) {
  return new Promise((done) => {
    const d = document.createElement('dialog');
    const form = document.createElement('form');
    form.method = 'dialog';
    const add = (tag, content, cls, to = form) => {
      const el = document.createElement(tag);
      if (content) el.textContent = content;
      if (cls) el.className = cls;
      to.append(el);
      return el;
    };
    const head = add('h2', title);
    head.id = 'dialog-title';
    d.setAttribute('aria-labelledby', head.id);
    for (const t of [].concat(text || [])) add('p', t);
    const inputs = fields.map((f) => {
      const label = add('label', '', f.type === 'checkbox' ? 'check' : 'field');
      const name = document.createElement('span');
      name.textContent = f.label;
      const el = document.createElement(f.options ? 'select' : f.type === 'textarea' ? 'textarea' : 'input');
      if (f.options) {
        for (const o of f.options) {
          const opt = document.createElement('option');
          [opt.value, opt.textContent] = Array.isArray(o) ? o : [o, o];
          el.append(opt);
        }
      } else if (f.type && f.type !== 'textarea') el.type = f.type;
      if (f.type === 'textarea') el.rows = 6;
      el.name = f.name;
      el.required = !!f.required;
      if (f.type === 'checkbox') el.checked = !!f.value;
      else el.value = f.value ?? '';
      if (f.type === 'checkbox') label.append(el, name);
      else label.append(name, el);
      if (f.hint) add('small', f.hint, 'dim', label);
      return el;
    });
    const foot = add('div', '', 'foot');
    const cancel = add('button', 'Cancel', '', foot);
    cancel.type = 'button';
    cancel.onclick = () => d.close('');
    const ok = add('button', confirm, danger ? 'danger' : 'primary', foot);
    ok.value = 'ok';
    d.append(form);
    d.onclose = () => {
      const values = d.returnValue === 'ok' ? Object.fromEntries(fields.map((f, i) => [f.name, f.type === 'checkbox' ? inputs[i].checked : inputs[i].value])) : null;
      d.remove();
      done(values);
    };
    document.body.append(d);
    d.showModal();
  });
}

// toast shows a message for some seconds; errors stay until they are closed.
export function toast(text, bad = false) {
  let box = document.getElementById('toasts');
  if (!box) {
    box = document.createElement('div');
    box.id = 'toasts';
    box.setAttribute('aria-live', 'polite');
    document.body.append(box);
  }
  const el = document.createElement('div');
  el.className = 'toast' + (bad ? ' bad' : '');
  if (bad) el.setAttribute('role', 'alert');
  const words = document.createElement('span');
  words.textContent = text;
  const close = document.createElement('button');
  close.type = 'button';
  close.textContent = 'Close';
  close.className = 'small';
  close.onclick = () => el.remove();
  el.append(words, close);
  box.append(el);
  while (box.children.length > 4) box.firstChild.remove();
  setTimeout(() => el.remove(), bad ? 30000 : 5000);
}

// act runs a change, reports how it ended and returns its result, or undefined when it failed.
export async function act(done, change) {
  try {
    const out = (await change()) ?? true;
    if (done) toast(done);
    return out;
  } catch (err) {
    toast(err.message, true);
    return undefined;
  }
}
