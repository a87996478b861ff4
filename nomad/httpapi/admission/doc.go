// Package admission bounds what clients take of the HTTP port while they send and read: how slowly a body may come and an
// answer may be taken ([Paced]), and how many bodies are in memory at once, of one client and of all ([Bodies]).
package admission
