// Package files gives job files the functions that see files: file, fileset and the like. Only the
// command line uses it; a server must not read what a job file names.
package files

import (
	"path/filepath"

	"github.com/hashicorp/go-cty-funcs/filesystem"

	"github.com/open-nomad/open-nomad/jobspec/expr"
)

// Functions are the file functions with paths relative to the directory.
func Functions(dir string) expr.FileFunctions {
	return expr.FileFunctions{
		"abspath": filesystem.AbsPathFunc, "basename": filesystem.BasenameFunc, "dirname": filesystem.DirnameFunc,
		"pathexpand": filesystem.PathExpandFunc,
		"file":       filesystem.MakeFileFunc(dir, false), "filebase64": filesystem.MakeFileFunc(dir, true),
		"fileexists": filesystem.MakeFileExistsFunc(dir), "fileset": filesystem.MakeFileSetFunc(dir),
	}
}

// Dir is the directory that relative paths of a job file start from.
func Dir(jobFile string) string { return filepath.Dir(jobFile) }
