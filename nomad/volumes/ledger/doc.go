// Package ledger is the only code that reads claims and attachments in a transaction, asks package
// claim what follows, and writes them back. Plan apply, client updates, node status changes and the
// volumes room all go through it, inside Apply.
//
// Every function checks that the move is legal against the rows as they are, so late or doubled
// reports are refused or do nothing, and settles what follows before it returns.
package ledger
