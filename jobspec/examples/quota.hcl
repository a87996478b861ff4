# A quota limits what all namespaces that name it use together:
#
#     nomad quota apply spec.hcl
#     nomad namespace apply -quota default-quota dev
name        = "default-quota"
description = "Limit the shared default namespace"

# One limit per region. A key that is absent or 0 has no limit; a negative one permits nothing.
limit {
  region = "global"

  region_limit {
    cpu        = 2500 # MHz
    cores      = 0
    memory     = 1000 # MB
    memory_max = 1000 # MB

    # Volumes count from their creation to their deletion, attached or not.
    storage {
      volumes    = 10
      volumes_mb = 10240
    }

    # node_pool "gpu" {
    #   cpu = 1000
    # }
  }
}
