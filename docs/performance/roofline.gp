# gnuplot docs/performance/roofline.gp: the machine's limits and what each part of a step reaches (roofline.dat).
set terminal svg size 900,560 font "sans,13" background "white"
set output "docs/performance/roofline.svg"
set logscale xy
set xlabel "operations per byte of weights and rows"
set ylabel "Gop/s"
set key right bottom
set xrange [0.6:10000]
set yrange [5:1000]
set grid
stats "docs/performance/machine.dat" using 1:2 nooutput
read = STATS_max_x
dots = STATS_max_y
plot (x * read < dots ? x * read : dots) with lines lw 2 lc rgb "#444444" title sprintf("machine: %.0f GB/s, %.0f GFLOP/s bf16", read, dots), \
  "< grep decode docs/performance/roofline.dat" using 3:4 with points pt 7 ps 1.2 lc rgb "#1f77b4" title "decode, 1 sequence, 4K", \
  "< grep decode docs/performance/roofline.dat" using 3:4:2 with labels left offset 1,-0.4 font ",10" notitle, \
  "< grep prefill docs/performance/roofline.dat" using 3:4 with points pt 5 ps 1.2 lc rgb "#d62728" title "prefill, 512 tokens", \
  "< grep prefill docs/performance/roofline.dat" using 3:4:2 with labels left rotate by 30 offset 0.5,0.5 font ",10" notitle
