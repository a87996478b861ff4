// Package doctor decides what is wrong with a volume or a CSI plugin, from facts that its caller collects. It is pure:
// each rule is a function from [Facts] to findings, and the same facts give the same findings in the same order.
//
// A rule reports a state that keeps a user waiting, or that an operator should change, with the one command that helps
// and with what happens without it. Findings of severity info explain a healthy volume: who uses it.
package doctor
