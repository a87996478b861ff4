// Package tree decodes the values of files into Go values: a parser builds a tree with places ([Item], [Value]), and
// [Decoder] decodes it over structs by their hcl tags. The configuration of agents and volume files are decoded as a
// whole, the attributes of job files one by one ([Assign]).
package tree
