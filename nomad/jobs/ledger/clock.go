package ledger

import "time"

// ClockSlack is how far apart the clocks of servers may be. A time of theirs that is further ahead was never right.
const ClockSlack = time.Minute
