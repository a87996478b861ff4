// Package policy parses the rules of ACL policies and decides which rights a token has by them.
//
// [Parse] reads the rules of one policy, in HCL or JSON, checks every name in them and expands the shorthands. [Compile]
// merges the policies of a token into [Rights], which are asked for each request.
//
//	rules ──Parse──▶ Policy ─┐
//	rules ──Parse──▶ Policy ─┴─Compile──▶ Rights ──Allows, Sees, Variables, Explain──▶ yes or no, and the rule
//
// One pattern decides about a name: the name itself, or else the glob that matches it with the most literal characters.
// Rules of one pattern are merged, from all policies. Among globs with equally many literal characters one that denies
// comes first, then the first in alphabetical order. For variables, the pattern is that of the namespace with that of the
// path, and a namespace whose deciding rules deny has no variables.
//
// Invariants:
//   - A capability is granted only by the rules of the pattern that decides.
//   - If one of them denies, none of their capabilities is granted.
//   - The result does not depend on the order of policies and rules.
//   - Policies and Rights are never changed after they are made, so goroutines share them.
//   - Parse returns, for every text, a policy or an error with line and column.
//
// The package is pure.
package policy
