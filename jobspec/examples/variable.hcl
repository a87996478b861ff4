# A variable holds encrypted items. Jobs read those at nomad/jobs/<job> and below:
#
#     nomad var put @spec.nv.hcl
path = "nomad/jobs/example"

# namespace = "default"

# Written only if the variable has this index; 0 or absent: if it does not exist.
# modify_index = 0

items {
  user     = "me"
  password = "change-me"
}
