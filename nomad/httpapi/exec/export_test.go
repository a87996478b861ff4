package exec

// RoutesWithin are the endpoints for clients that may pause their reading for so long.
var RoutesWithin = routes
