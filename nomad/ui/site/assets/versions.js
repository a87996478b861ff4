// The versions of a job with their differences, and the way back.

import {put} from './api.js';
import {act, ask} from './dialog.js';
import {jobDiff} from './diff.js';
import {badge, button, card, facts, time} from './parts.js';

export function versions(out, {id, ns, at, here, now}) {
  const list = out.Versions || out || [];
  async function revert(v) {
    const ok = await ask({title: 'Revert ' + id + ' to version ' + v.Version + '?', text: 'The job of that version is registered again, as a new version.', confirm: 'Revert'});
    if (ok) act('Reverted to version ' + v.Version, () => put(at + '/revert', {JobID: id, JobVersion: v.Version, Namespace: ns, EnforcePriorVersion: now}, here));
  }
  return list.map((v, i) => card('Version ' + v.Version, [
    facts([['Submitted', time(v.SubmitTime)], ['Stable', v.Stable ? badge('stable', 'ok') : 'no'], ['Tag', v.VersionTag?.Name], ['Description', v.VersionTag?.Description]]),
    out.Diffs?.[i] && jobDiff(out.Diffs[i]),
  ], v.Version === now ? badge('current', 'info') : button('Revert to this version', () => revert(v))));
}
