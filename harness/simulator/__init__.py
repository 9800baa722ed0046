"""The protocol in virtual time: thousands of seeded fault schedules a minute, any cluster size."""
