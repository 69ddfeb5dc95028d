"""What a training run shows of itself while it trains.

Nothing is imported here, so that ``monitor.config`` can be read without torch, and nothing that is
switched off (TensorBoard, Prometheus, NVML) needs to be installed.
"""
