package api

//msgp:limit arrays:1000000 maps:1000000
