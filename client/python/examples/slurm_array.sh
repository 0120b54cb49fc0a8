#!/bin/bash
#SBATCH --job-name=larder-sweep
#SBATCH --array=0-7
#SBATCH --gres=gpu:1
#SBATCH --cpus-per-task=4
#
# An array of eight trainings:
#
#   sbatch slurm_array.sh FOLDER
#
# Tasks that come to the same node find the same daemon, and prepare their data once. The daemon that the first task
# starts leaves with that task's step where Slurm's control group holds it; the others then start another and go on. To
# have one for the whole array, start larderd as a service on the nodes and set LARDER_SOCKET. For several tasks of one
# job, and for several nodes, there is slurm_step.sh.
set -eu
# Submitted scripts are copied elsewhere; the folder they were submitted from is the examples'.
srun python3 "${SLURM_SUBMIT_DIR:-.}/train.py" "$1" --checkpoint "run-${SLURM_ARRAY_TASK_ID:-0}.pt"
