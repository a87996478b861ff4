# A batch job that is launched by the clock. Every launch is a job of its own, a child of this one.
#
#   nomad job run periodic.nomad.hcl
#   nomad job status nightly
#   nomad job periodic force nightly
job "nightly" {
  type = "batch"

  periodic {
    crons            = ["30 2 * * *"] # every night at half past two
    time_zone        = "Europe/Berlin"
    prohibit_overlap = true # no launch while the one before still runs
  }

  group "app" {
    task "report" {
      driver = "raw_exec"

      config {
        command = "/bin/sh"
        args    = ["-c", "echo report of $(date)"]
      }

      resources {
        cpu    = 50 # MHz
        memory = 32 # MiB
      }
    }
  }
}
