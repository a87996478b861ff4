// Package fetch gets documents from providers of identities: replies are bounded in size and in time, requests with secrets
// follow no redirects, and what was fetched is kept for a while.
package fetch
