// Package templates renders the templates of tasks.
//
// The functions of templates are those of consul-template, a library with many dependencies that executes the text of users. It
// runs in a program of its own, nomad-template, one for each running task that has templates with functions, as user nobody:
//
//	agent                                         nomad-template
//	  spec: texts, environment, token ──────────► executes the templates
//	  ◄────────────────── what is missing, warnings
//	  API of the task on a socket ◄────────────── calls for services and variables
//	  content of files ──────────────────────────► function file
//	  writes the file ◄────────────────── content
//
// The program opens no files and has no environment. The agent reads and writes files below the directories of the task and
// follows no link out of them ([Files]). A template that needs more than [Program.MemoryMax] of memory or
// [Program.ProcessorMax] of processor time ends the program with an error, which is a [Failure]. A program that dies is started
// again; it renders the same content, which the caller compares with what it has.
package templates
