// Package diff compares two versions of a job. [Jobs] describes the difference as users read it in
// a plan; [Same] only reports whether there is one.
//
// Both walk the structs of package api by reflection, so a new field is compared without a line
// here. Fields that the servers write are left out, and a list or map that is nil is the same as one
// that is empty: encodings do not keep them apart.
//
// The package is pure: it reads nothing and changes nothing.
package diff
