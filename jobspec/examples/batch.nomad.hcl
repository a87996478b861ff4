# A batch job: every allocation runs to its end and is then complete. Count, text and the file of a
# variable may be chosen when the job is run:
#
#   nomad job run -var count=3 -var 'words=["one","two"]' batch.nomad.hcl
variable "count" {
  description = "how many allocations run"
  type        = number
  default     = 2

  validation {
    condition     = var.count >= 1 && var.count <= 100
    error_message = "The count must be between 1 and 100."
  }
}

variable "words" {
  description = "what each of them says; one task per word"
  type        = list(string)
  default     = ["first", "second"]
}

locals {
  greeting = "word ${format("%d", length(var.words))} of many"
}

job "words" {
  type = "batch"

  # What is not in a job block is data: meta reaches tasks as NOMAD_META_greeting.
  meta {
    greeting = local.greeting
  }

  group "speakers" {
    count = var.count

    # A failed task is tried again on its node, three times at most.
    restart {
      attempts = 3
      interval = "10m"
      delay    = "5s"
      mode     = "fail"
    }

    # When that did not help, it is placed once more, perhaps elsewhere.
    reschedule {
      attempts  = 1
      interval  = "1h"
      delay     = "10s"
      unlimited = false
    }

    # One task for each word.
    dynamic "task" {
      for_each = var.words
      labels   = ["say-${task.key}"]

      content {
        driver = "raw_exec"

        config {
          command = "/bin/echo"
          # ${NOMAD_ALLOC_INDEX} is known on the node only, so it stays as it is until then.
          args = [upper(task.value), "from allocation ${NOMAD_ALLOC_INDEX}"]
        }

        resources {
          cpu    = 20
          memory = 16
        }
      }
    }
  }
}
