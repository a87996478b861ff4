// Package config reads the agent's configuration: HCL or JSON, detected by content, from files and
// directories merged in the order given, over defaults, with -dev and then flags on top.
//
// Files are decoded over what stands already, so a later file changes only what it sets. Unknown
// keys are errors that name file, line and column; keys that this version knows but does not use are
// warnings, so that a configuration written for the compatible system can be taken over as it is.
// [Config.Validate] reports everything that is wrong at once.
package config
