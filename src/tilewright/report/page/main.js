drawTimeline();
drawCycles();
for (const memory of data.memories) drawMemory(memory);
drawAccuracy();
drawRegions();
searchable("ir");
searchable("assembly");
document.documentElement.dataset.ready = "true";
