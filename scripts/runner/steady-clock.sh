#!/bin/sh
# One frequency, as far as this machine lets itself be told; a virtual one does not.
cpu=/sys/devices/system/cpu
for file in $cpu/cpu*/cpufreq/scaling_governor; do [ -w "$file" ] && echo performance >"$file"; done
[ -w $cpu/intel_pstate/no_turbo ] && echo 1 >$cpu/intel_pstate/no_turbo
[ -w $cpu/cpufreq/boost ] && echo 0 >$cpu/cpufreq/boost
exit 0
