// What the environment says of who started this process together with others.
#include <gtest/gtest.h>

#include <cstdlib>

#include "cli.h"

namespace tacit::cli {
namespace {

using Environment = std::vector<std::pair<const char*, const char*>>;

Launched In(const Environment& environment) {
  for (const char* key : {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "SLURM_STEP_NUM_TASKS",
                          "SLURM_PROCID", "SLURM_NTASKS", "SLURM_NPROCS", "PMI_SIZE", "PMI_RANK"})
    ::unsetenv(key);                    // NOLINT(concurrency-mt-unsafe)
  for (const auto& [key, value] : environment) ::setenv(key, value, 1);  // NOLINT(concurrency-mt-unsafe)
  return HowLaunched();
}

struct Case {
  const char* why;
  Environment environment;
  const char* by;
  std::uint32_t rank, size;
};
const Case kCases[] = {
    {"by nobody", {}, "", 0, 0},
    {"by mpirun", {{"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_RANK", "3"}}, "mpirun", 3, 4},
    {"by srun", {{"SLURM_STEP_NUM_TASKS", "16"}, {"SLURM_PROCID", "15"}}, "srun", 15, 16},
    {"by another MPI's mpiexec", {{"PMI_SIZE", "2"}, {"PMI_RANK", "1"}}, "mpiexec", 1, 2},
    {"alone by srun", {{"SLURM_STEP_NUM_TASKS", "1"}, {"SLURM_PROCID", "0"}}, "srun", 0, 1},
    {"by mpirun in a step of Slurm, which sets its own for the node",
     {{"OMPI_COMM_WORLD_SIZE", "8"},
      {"OMPI_COMM_WORLD_RANK", "5"},
      {"SLURM_STEP_NUM_TASKS", "2"},
      {"SLURM_PROCID", "1"}},
     "mpirun",
     5,
     8},
    {"by srun, with PMI beside it",
     {{"SLURM_STEP_NUM_TASKS", "3"}, {"SLURM_PROCID", "2"}, {"PMI_SIZE", "3"}, {"PMI_RANK", "2"}},
     "srun",
     2,
     3},
    {"in a batch script of sixteen tasks, of which it is none",
     {{"SLURM_NTASKS", "16"}, {"SLURM_NPROCS", "16"}, {"SLURM_PROCID", "0"}},
     "",
     0,
     0},
    {"an empty number is none",
     {{"OMPI_COMM_WORLD_SIZE", ""}, {"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_PROCID", "1"}},
     "srun",
     1,
     2},
    {"nor one with letters", {{"OMPI_COMM_WORLD_SIZE", "4x"}, {"OMPI_COMM_WORLD_RANK", "1"}}, "", 0, 0},
    {"nor one below zero", {{"SLURM_STEP_NUM_TASKS", "-1"}, {"SLURM_PROCID", "0"}}, "", 0, 0},
    {"nor more processes than there can be", {{"PMI_SIZE", "16777216"}, {"PMI_RANK", "0"}}, "", 0, 0},
    {"nor what no integer holds",
     {{"OMPI_COMM_WORLD_SIZE", "99999999999999999999"}, {"OMPI_COMM_WORLD_RANK", "0"}},
     "",
     0,
     0},
};

TEST(Launched, IsReadFromTheEnvironment) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.why);
    const Launched found = In(c.environment);
    EXPECT_STREQ(found.by, c.by);
    EXPECT_EQ(found.rank, c.rank);
    EXPECT_EQ(found.size, c.size);
  }
  (void)In({});
}

}  // namespace
}  // namespace tacit::cli
